"""Loads plugins, each once and by name, when they are first asked for.

A plugin that fails to load becomes a `Broken` row with its error and affects nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, Generic, Literal, TypeVar, cast

from msgspec import Struct

from pilothouse.core.channel import ChannelSpec
from pilothouse.core.engine import EngineSpec, TrustedFile
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
OWN_FILE = TrustedFile(".pilothouse.toml", "MCP servers: programs and addresses", section="mcp")
"""The workspace's own file, which Pilothouse itself obeys: only its servers need trust."""
EXPECTED: Mapping[Group, type] = {"engines": EngineSpec, "channels": ChannelSpec, "stores": StoreSpec}


class Loaded(Struct, Generic[T], frozen=True):
    name: str
    spec: T
    dist: str = ""


class Broken(Struct, frozen=True):
    """A plugin that failed to load; `error` is one line."""

    name: str
    error: str
    dist: str = ""


class Found(Struct, frozen=True):
    """An entry point that was found and not yet imported."""

    name: str
    target: str
    dist: str = ""


def installed(group: Group) -> list[Found]:
    return [Found(point.name, point.target, point.dist) for point in entry_points(f"pilothouse.{group}")]


class Plugins:
    """Loads each name once. Embedders and tests may pass their own `find`."""

    def __init__(self, find: Callable[[Group], Iterable[Found]] = installed) -> None:
        self._find = find
        self._declared: dict[str, str] = {}
        self._found: dict[Group, list[Found]] = {}
        self._loaded: dict[Found, Loaded[Any] | Broken] = {}

    def declare(self, engines: Mapping[str, str]) -> None:
        """Note the engines that have a section, with the `type` of each: a type makes an engine of any name."""
        if self._declared != engines:
            self._declared = dict(engines)
            self._found.pop("engines", None)

    def engines(self) -> list[Loaded[EngineSpec] | Broken]:
        """Return all engines but the ready-made ones that are neither here nor have a section."""
        return [row for row in self._all("engines") if self._is_listed(row)]

    def _is_listed(self, row: Loaded[EngineSpec] | Broken) -> bool:
        if isinstance(row, Broken) or row.spec.is_found is None or row.name in self._declared:
            return True
        return row.spec.is_found()

    def channels(self) -> list[Loaded[ChannelSpec] | Broken]:
        return self._all("channels")

    def stores(self) -> list[Loaded[StoreSpec] | Broken]:
        return self._all("stores")

    def engine(self, name: str) -> EngineSpec:
        """Return an engine by its name or an alias."""
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
        """Return any spec by group and name."""
        return self._one(group, name)

    def command(self, name: str) -> Any:
        """Return a click command, untyped because only the command line may import click."""
        return self._one("commands", name)

    def names(self, group: Group) -> list[str]:
        """Return the names without importing anything."""
        return list(dict.fromkeys(found.name for found in self.found(group)))

    def found(self, group: Group) -> list[Found]:
        """Return the entry points by name. If two packages claim a name, ours comes first and wins."""
        if group not in self._found:
            rows = list(self._find(group))
            if group == "engines":
                rows += self._made_by_type(rows)
            self._found[group] = sorted(rows, key=lambda row: (row.name, row.dist != OURS, row.dist))
        return self._found[group]

    def _made_by_type(self, rows: Sequence[Found]) -> list[Found]:
        """Return the engines that only the configuration names."""
        known = {row.name: row for row in rows}
        return [
            Found(name, known[kind].target, known[kind].dist)
            for name, kind in self._declared.items()
            if name not in known and kind in known
        ]

    def sections(self, group: Group) -> dict[str, type[Struct] | None]:
        """Return the section type of every adapter for the configuration, None for those that did not load."""
        rows: dict[str, type[Struct] | None] = {}
        for row in self._all(group):
            rows.setdefault(row.name, row.spec.config if isinstance(row, Loaded) else None)
        return rows

    def aliases(self) -> dict[str, str]:
        loaded = [row for row in self.engines() if isinstance(row, Loaded)]
        return {alias: row.name for row in loaded for alias in row.spec.aliases}

    def trusted_files(self) -> tuple[TrustedFile, ...]:
        """Return the files that Pilothouse and installed engines obey in a trusted folder only, each path once."""
        found: dict[str, TrustedFile] = {OWN_FILE.path: OWN_FILE}
        for row in self.engines():
            for file in row.spec.trusted_files if isinstance(row, Loaded) else ():
                if file.runs or file.path not in found:
                    found[file.path] = file
        return tuple(found.values())

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
        with redirect_stdout(sys.stderr):  # stdout belongs to the command's own output
            spec = import_module(module.strip())
            for part in path.strip().split("."):
                spec = getattr(spec, part)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin's failure is data
        return Broken(found.name, f"{type(error).__name__}: {error}".splitlines()[0], found.dist)
    expected = EXPECTED.get(group)
    if expected is not None and not isinstance(spec, expected):
        text = f"{found.target} has the type {type(spec).__name__}, not {expected.__name__}"
        return Broken(found.name, text, found.dist)
    if isinstance(spec, EngineSpec) and spec.named is not None and spec.id != found.name:
        spec = spec.named(found.name)
    return Loaded(found.name, cast("Any", spec), found.dist)
