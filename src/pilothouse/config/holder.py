"""The configuration in force: safe changes apply while running, others need a restart. A broken edit changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.config.layers import Loaded
from pilothouse.config.model import AUTO, Config
from pilothouse.config.problems import Problem
from pilothouse.core.clock import until_next
from pilothouse.core.errors import ConfigError

LOOK_EVERY_S = 5.0

RELOADABLE: dict[str, frozenset[str] | None] = {
    "gateway": frozenset(
        {
            "default_engine",
            "default_workspace",
            "busy",
            "threads",
            "grace_s",
            "hang_after_s",
            "max_message_chars",
            "retention_days",
            "transcript_days",
            "transcript_files",
            "max_attempts",
            "engine_commands",
            "ask_timeout_s",
            "question_timeout_s",
            "question_park_s",
            "hold_s",
            "mcp_login_s",
            "show_cost",
            "roots",
        }
    ),
    "people": None,
    "approvals": None,
    "budget": None,
    "limits": None,
    "isolation": None,
    "policy": None,
    "workspaces": None,
    "mcp": None,
    "log": frozenset({"level"}),
    "store": frozenset(),
    "engines": frozenset(),
    "channels": frozenset(),
}
"""Keys of each section that may change while running; None means all."""


class Reloaded(Struct, frozen=True):
    """Result of a reload. With a `problem`, nothing changed and the last good configuration stays."""

    applied: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()
    problem: str = ""

    @property
    def worrying(self) -> bool:
        return bool(self.problem or self.warnings)

    @property
    def text(self) -> str:
        if self.problem:
            return f"the configuration is broken, so the last good one stays in force:\n{self.problem}"
        said = [f"now in force: {', '.join(self.applied)}"] if self.applied else []
        if self.needs_restart:
            said.append(f"needs a restart: {', '.join(self.needs_restart)}")
        said += [f"warning: {warning}" for warning in self.warnings]
        return "; ".join(said) or "nothing changed"


class ConfigHolder:
    """Holds the configuration in force. Read `current` for each decision instead of keeping it."""

    def __init__(self, first: Loaded, load: Callable[[], Loaded]) -> None:
        self.loaded = first
        self._load = load
        self._had_file = first.paths.config_file.exists()

    @property
    def current(self) -> Config:
        return self.loaded.config

    def reload(self) -> Reloaded:
        file = self.loaded.paths.config_file
        if self._had_file and not file.exists():
            return Reloaded(problem=f"{file} was deleted; restore it, or restart to use the defaults")
        try:
            new = self._load()
        except ConfigError as error:
            return Reloaded(problem=str(error))
        self._had_file = file.exists()
        changed = set(_changes(self.current, new.config))
        postponed = _postponed(self.current, new.config)
        applied = {key for key in changed - postponed if may_reload(key)}
        config = _apply(self.current, new.config, postponed)
        self.loaded = msgspec.structs.replace(new, config=config)
        return Reloaded(tuple(sorted(applied)), tuple(sorted(changed - applied)), new.warnings)


def may_reload(key: str) -> bool:
    section, _, name = key.partition(".")
    allowed = RELOADABLE.get(section, frozenset())
    return allowed is None or name in allowed


def _changes(old: Config, new: Config) -> Iterable[str]:
    for section in RELOADABLE:
        before, after = getattr(old, section), getattr(new, section)
        if isinstance(before, Struct) and section != "store":
            for name in before.__struct_fields__:
                if getattr(before, name) != getattr(after, name):
                    yield f"{section}.{name}"
        elif before != after:
            yield from _changed_names(section, before, after)


def _changed_names(section: str, before: Any, after: Any) -> Iterable[str]:
    if not isinstance(before, dict):
        yield section
        return
    for name in {*before, *after}:
        if before.get(name) != after.get(name):
            yield f"{section}.{name}"


def _postponed(old: Config, new: Config) -> set[str]:
    """Return safe keys that must still wait: an engine enabled just now cannot be the default before a restart."""
    wanted = new.gateway.default_engine
    there = wanted == AUTO or any(row.enabled for id, row in old.engines.items() if id == wanted)
    return set() if there else {"gateway.default_engine"}


def _apply(old: Config, new: Config, postponed: set[str]) -> Config:
    def section(name: str) -> Any:
        before, after, allowed = getattr(old, name), getattr(new, name), RELOADABLE[name]
        if allowed is None:
            return after
        taken = {key: getattr(after, key) for key in allowed if f"{name}.{key}" not in postponed}
        return msgspec.structs.replace(before, **taken) if taken else before

    return Config(**{name: section(name) for name in RELOADABLE})


def _signature(paths: Iterable[Path]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for path in paths:
        try:
            info = path.stat()
            found.append((info.st_mtime_ns, info.st_size, info.st_ino))
        except OSError:
            found.append(())
    return found


async def watch(paths: Iterable[Path], on_change: Callable[[], None], every_s: float = LOOK_EVERY_S) -> None:
    """Call `on_change` whenever a file changes, appears or disappears, until cancelled.

    It looks every few seconds: a kernel watch can fail and ends when an editor replaces the file.
    """
    import anyio

    files = list(paths)
    seen = _signature(files)
    while True:
        await anyio.sleep(until_next(every_s, anyio.current_time()))
        if (now := _signature(files)) != seen:
            seen = now
            on_change()
