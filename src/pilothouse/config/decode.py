"""Decodes leaves into values, field by field, so that every complaint names one key and its source."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Meta, Struct, ValidationError
from msgspec.structs import FieldInfo

from pilothouse.config.problems import Problem, nearest, show
from pilothouse.config.sources import Key, Leaf, Leaves, below, dotted, unflatten
from pilothouse.core.secret import Secret

S = TypeVar("S", bound=Struct)


class Reader:
    """Decodes sections and collects their problems; nothing is raised until all were read."""

    def __init__(
        self,
        leaves: Leaves,
        default_source: str,
        find_secret: Callable[[Key, Any], Leaf | None],
        location_for: Callable[[Key, Any], str] = lambda key, kind: "",
    ) -> None:
        self.leaves = leaves
        self.default_source = default_source
        self.find_secret = find_secret
        self.location_for = location_for
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.secrets: set[str] = set()
        self.secret_keys: set[Key] = set()

    def read(self, model: type[S], at: Key, skip: Iterable[str] = ()) -> S | None:
        """Decode a section. None if it has problems, which are in `problems`. Keys in `skip` are read elsewhere."""
        if not self.expect_table(at):
            return None
        fields = {info.encode_name: info for info in msgspec.structs.fields(model)}
        self.warn_unknown(at, fields, skip)
        before = len(self.problems)
        values: dict[str, Any] = {}
        for name, info in fields.items():
            if name not in skip:
                self._read_field(info, (*at, name), values)
        return self._build(model, at, values) if len(self.problems) == before else None

    def expect_table(self, at: Key) -> bool:
        leaf = self.leaves.get(at)
        if leaf is None or leaf.value == {}:
            return True
        text = f"{show(leaf.shown)} is not allowed; it must be a table"
        problem = Problem(leaf.source, dotted(at), text)
        if problem not in self.problems:
            self.problems.append(problem)
        return False

    def warn_unknown(self, at: Key, known: Iterable[str], skip: Iterable[str] = ()) -> None:
        expected = [*known, *skip]
        leaves = below(self.leaves, at)
        for name in dict.fromkeys(key[0] for key in leaves if key):
            if name not in expected:
                source = next(leaf.source for key, leaf in leaves.items() if key[:1] == (name,))
                text = f"is not known and was ignored{nearest(name, expected)}"
                self.warnings.append(Problem(source, dotted((*at, name)), text))

    def refuse(self, key: Key, allowed: Iterable[str]) -> None:
        """Report that the value at `key` is not one of `allowed`."""
        leaf = self.leaves[key]
        names = sorted(allowed)
        hint = nearest(str(leaf.value), names)
        self._complain(leaf, key, f"is not allowed; allowed: {', '.join(names) or 'nothing yet'}{hint}")

    def _complain(self, leaf: Leaf, key: Key, text: str) -> None:
        self.problems.append(Problem(leaf.source, dotted(key), f"{show(leaf.shown)} {text}"))

    def _read_field(self, info: FieldInfo, key: Key, values: dict[str, Any]) -> None:
        leaves: Leaves = below(self.leaves, key)
        if is_secret(info.type):
            self.secret_keys.add(key)
            if not leaves and (found := self.find_secret(key, info.type)):
                leaves = {(): found}
                self.leaves[key] = found  # so that its origin can be shown
        if not leaves:
            if info.default is NODEFAULT and info.default_factory is NODEFAULT:
                text = f"is missing; it must be {describe(info.type)}"
                self.problems.append(Problem(self.default_source, dotted(key), text))
            elif isinstance(info.default, Secret) and not info.default:
                values[info.name] = Secret("", self.location_for(key, info.type))
        elif isinstance(info.type, type) and issubclass(info.type, Struct):
            values[info.name] = self.read(info.type, key)
        else:
            values[info.name] = self._convert(leaves, info.type, key)

    def _convert(self, leaves: Leaves, kind: Any, key: Key) -> Any:
        value = unflatten(leaves)
        first = next(iter(leaves.values()))
        raw = leaves[()].raw if () in leaves else None
        for candidate in (value,) if raw is None else (value, raw):
            try:
                return msgspec.convert(candidate, kind, dec_hook=partial(self._hook, first))
            except ValidationError:
                continue
        hidden = Secret("x") if is_secret(kind) else first.shown if () in leaves else value
        hint = nearest(value, _literals(kind)) if isinstance(value, str) else ""
        text = f"{show(hidden)} is not allowed; allowed: {describe(kind)}{hint}"
        self.problems.append(Problem(first.source, dotted(key), text))
        return None

    def _hook(self, leaf: Leaf, kind: type, value: Any) -> Any:
        if kind not in (Secret, Path) or not isinstance(value, str):
            raise TypeError(f"expected a text, not {type(value).__name__}")
        if kind is Path:
            return Path(value).expanduser()
        self.secrets.add(value)
        return Secret(value, leaf.location)

    def _build(self, model: type[S], at: Key, values: Mapping[str, Any]) -> S | None:
        try:
            return model(**values)
        except (ValueError, TypeError) as error:
            self.problems.append(Problem(self.default_source, dotted(at), str(error)))
            return None


def is_secret(kind: Any) -> bool:
    """Tell whether a field holds a secret, perhaps an optional one."""
    if get_origin(kind) is Annotated or get_origin(kind) in (Union, types.UnionType):
        return any(is_secret(part) for part in get_args(kind))
    return kind is Secret


def metas(kind: Any) -> list[Meta]:
    """Return the `Meta` annotations of a type, outermost first."""
    own = list(getattr(kind, "__metadata__", ()))
    return [m for m in own if isinstance(m, Meta)] + [m for part in get_args(kind) for m in metas(part)]


def _literals(kind: Any) -> list[str]:
    parts = get_args(kind)
    return [p for p in parts if isinstance(p, str)] + [word for p in parts for word in _literals(p)]


PLAIN: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Secret: "a text",
    Path: "a path",
    type(None): "",
}


def describe(kind: Any) -> str:
    """Describe the allowed values of a type, for people."""
    described = next((meta.description for meta in metas(kind) if meta.description), None)
    if get_origin(kind) is Annotated:
        return described or describe(get_args(kind)[0])
    if kind in PLAIN:
        return PLAIN[kind]
    if get_origin(kind) in (list, tuple, set, frozenset):
        return f"a list of {described}" if described else "a list"
    if get_origin(kind) in (dict, Mapping) or (isinstance(kind, type) and issubclass(kind, Struct)):
        return "a table"
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(filter(None, map(describe, get_args(kind))))
    return ", ".join(map(str, get_args(kind))) or str(kind)
