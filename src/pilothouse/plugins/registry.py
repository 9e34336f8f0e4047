"""Loads what was found, once and by name.

Nothing is looked for before it is asked for, and nothing is imported before it is needed. A plugin that fails to
load becomes a `Broken` row with its error; it takes nothing down.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar, cast

from msgspec import Struct

from pilothouse.core.channel import ChannelSpec
from pilothouse.core.engine import EngineSpec
from pilothouse.core.errors import PluginError
from pilothouse.core.store import StoreSpec
from pilothouse.plugins.entry_points import entry_points

T = TypeVar("T")
Group = Literal["engines", "channels", "stores", "commands"]

OURS = "pilothouse"
SINGULAR: Mapping[Group, str] = {
    "engines": "engine",
    "channels": "channel",
    "stores": "store",
    "commands": "command",
}
EXPECTED: Mapping[Group, type] = {"engines": EngineSpec, "channels": ChannelSpec, "stores": StoreSpec}


class Loaded(Struct, Generic[T], frozen=True):
    name: str
    spec: T
    dist: str = ""


class Broken(Struct, frozen=True):
    """A plugin that is installed and cannot be used: `error` is one line that says why."""

    name: str
    error: str
    dist: str = ""


class Found(Struct, frozen=True):
    """An entry point that was seen and not yet imported."""

    name: str
    target: str
    dist: str = ""


def installed(group: Group) -> list[Found]:
    return [Found(point.name, point.target, point.dist) for point in entry_points(f"pilothouse.{group}")]


class Plugins:
    """Each name is loaded once. `find` is an argument so that embedding, and a test, may bring their own."""

    def __init__(self, find: Callable[[Group], Iterable[Found]] = installed) -> None:
        self._find = find
        self._found: dict[Group, list[Found]] = {}
        self._loaded: dict[Found, Loaded[Any] | Broken] = {}

    def engines(self) -> list[Loaded[EngineSpec] | Broken]:
        return self._all("engines")

    def channels(self) -> list[Loaded[ChannelSpec] | Broken]:
        return self._all("channels")

    def stores(self) -> list[Loaded[StoreSpec] | Broken]:
        return self._all("stores")

    def engine(self, name: str) -> EngineSpec:
        """By its name, or by an alias that it gives itself."""
        if name not in self.names("engines"):
            for row in self.engines():
                if isinstance(row, Loaded) and name in row.spec.aliases:
                    return row.spec
        return self._one("engines", name)

    def channel(self, name: str) -> ChannelSpec:
        return self._one("channels", name)

    def store(self, name: str) -> StoreSpec:
        return self._one("stores", name)

    def spec(self, group: Group, name: str) -> Any:
        """By group, for those who treat all alike."""
        return self._one(group, name)

    def command(self, name: str) -> Any:
        """A click command; its library stays the command line's own business."""
        return self._one("commands", name)

    def names(self, group: Group) -> list[str]:
        """Without importing any of them."""
        return list(dict.fromkeys(found.name for found in self.found(group)))

    def found(self, group: Group) -> list[Found]:
        """By name. Where two packages claim a name, ours comes first, and the first one has it."""
        if group not in self._found:
            rows = list(self._find(group))
            self._found[group] = sorted(rows, key=lambda row: (row.name, row.dist != OURS, row.dist))
        return self._found[group]

    def sections(self, group: Group) -> dict[str, type[Struct] | None]:
        """The section type of every adapter, None for those that did not load: what the configuration asks for."""
        rows: dict[str, type[Struct] | None] = {}
        for row in self._all(group):
            rows.setdefault(row.name, row.spec.config if isinstance(row, Loaded) else None)
        return rows

    def aliases(self) -> dict[str, str]:
        loaded = [row for row in self.engines() if isinstance(row, Loaded)]
        return {alias: row.name for row in loaded for alias in row.spec.aliases}

    def _all(self, group: Group) -> list[Any]:
        rows: list[Any] = []
        taken: dict[str, str] = {}
        for found in self.found(group):
            if found.name in taken:
                text = (
                    f"the {SINGULAR[group]} {found.name} is taken by {taken[found.name] or 'another package'}"
                )
                rows.append(Broken(found.name, text, found.dist))
                continue
            taken[found.name] = found.dist
            rows.append(self._load(group, found))
        return rows

    def _one(self, group: Group, name: str) -> Any:
        found = next((row for row in self.found(group) if row.name == name), None)
        if found is None:
            raise PluginError(self._unknown(group, name))
        row = self._load(group, found)
        if isinstance(row, Broken):
            raise PluginError(f"the {SINGULAR[group]} {name} (from {row.dist}) did not load: {row.error}")
        return row.spec

    def _unknown(self, group: Group, name: str) -> str:
        import difflib

        names = self.names(group)
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return f'there is no {SINGULAR[group]} "{name}"; installed: {", ".join(names) or "none"}{hint}'

    def _load(self, group: Group, found: Found) -> Loaded[Any] | Broken:
        if found not in self._loaded:
            self._loaded[found] = _load(group, found)
        return self._loaded[found]


def _load(group: Group, found: Found) -> Loaded[Any] | Broken:
    module, _, path = found.target.partition(":")
    try:
        with redirect_stdout(sys.stderr):  # stdout is the command's own: an answer, or JSON
            spec = import_module(module.strip())
            for part in path.strip().split("."):
                spec = getattr(spec, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a stranger's module does is data here
        return Broken(found.name, f"{type(error).__name__}: {error}".splitlines()[0], found.dist)
    expected = EXPECTED.get(group)
    if expected is not None and not isinstance(spec, expected):
        text = f"{found.target} has the type {type(spec).__name__}, not {expected.__name__}"
        return Broken(found.name, text, found.dist)
    return Loaded(found.name, cast("Any", spec), found.dist)
