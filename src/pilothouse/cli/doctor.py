"""`pilothouse doctor`: one line per check, with the exact fix. Exit code 1 if something is broken."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.machine import probe
from pilothouse.bootstrap.terminal_text import columns_of, fit
from pilothouse.cli.channels import channel_findings, channel_problem, channel_trouble
from pilothouse.cli.engines import engine_problem
from pilothouse.cli.options import json_option
from pilothouse.cli.store import read_store, store_file
from pilothouse.cli.table import NARROWEST, plain, print_json, width
from pilothouse.config import AUTO, Config, InvalidConfig, Loaded, Paths, find_paths
from pilothouse.core.engine import EngineStatus
from pilothouse.core.errors import ConfigError, PilothouseError, StoreTooOld
from pilothouse.core.store import Node, Store, StoreSpec, Tx
from pilothouse.plugins import Broken, Plugins

State = Literal["ok", "warn", "broken"]
LOW_DISK_MB = 200
OLDEST_PYTHON = (3, 11)
SCRIPTED = "script"
MARKS = {"ok": "✓", "warn": "!", "broken": "✗"}
COLOURS = {"ok": "32", "warn": "33", "broken": "31"}


class Check(Struct, frozen=True):
    name: str
    state: State
    text: str
    fix: str = ""


class Disk:
    """Facts from the operating system, replaceable in tests."""

    def free_mb(self, folder: Path) -> int:
        return shutil.disk_usage(folder).free // 1_000_000

    def can_create_in(self, folder: Path) -> bool:
        return os.access(folder, os.W_OK | os.X_OK)

    def can_write(self, file: Path) -> bool:
        return os.access(file, os.R_OK | os.W_OK)

    def is_ours(self, path: Path) -> bool:
        return path.stat().st_uid == os.getuid()


@runtime_checkable
class Checkable(Protocol):
    """A store that can check itself: empty if it is intact, else the problem."""

    async def check(self) -> str: ...


@click.command("doctor")
@json_option
def command(as_json: bool) -> int:
    """Check everything, and name the exact fix."""
    checks = list(examine())
    broken = any(check.state == "broken" for check in checks)
    if as_json:
        print_json({"ok": not broken, "checks": msgspec.to_builtins(checks)})
    else:
        room, columns = max(width(check.name) for check in checks), columns_of(sys.stdout)
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        for check in checks:
            print(render(check, room, columns, colour=colour))
    return 1 if broken else 0


def render(check: Check, room: int, columns: int | None, *, colour: bool) -> str:
    """Renders one line, wrapped at spaces only and never cut: a fix must stay whole."""
    mark = f"\x1b[{COLOURS[check.state]}m{MARKS[check.state]}\x1b[0m" if colour else MARKS[check.state]
    fix = f" → {plain(check.fix)}" if check.fix and check.state != "ok" else ""
    indent = " " * (room + 4)
    rows = fit(f"{indent}{plain(check.text)}{fix}", columns and max(NARROWEST, columns)).split("\n")
    return "\n".join([f"{mark} {check.name:<{room}}  {rows[0].lstrip()}".rstrip(), *rows[1:]])


def examine() -> Iterator[Check]:
    """Yields every check, in order of dependence; stops if the configuration cannot be read."""
    yield check_python()
    plugins = Plugins()
    yield from check_plugins(plugins)
    try:
        paths = find_paths(os.environ)
    except ConfigError as error:
        yield Check("home", "broken", str(error), "set PILOTHOUSE_HOME to a folder, or move the file away")
        return
    yield from check_files(paths)
    try:
        loaded = load_checked(plugins)
    except InvalidConfig as error:
        yield from (Check("config", "broken", str(p), f"edit {paths.config_file}") for p in error.problems)
        return
    yield from check_config(loaded)
    yield from check_workspaces(loaded.config)
    yield from check_store(plugins, loaded.config)
    yield from check_engines(plugins, loaded.config)
    yield from check_channels(plugins, loaded.config)


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    if tuple(sys.version_info[:2]) < OLDEST_PYTHON:
        return Check("python", "broken", f"{version} is too old", "install Python 3.11 or newer")
    return Check("python", "ok", version)


def check_plugins(plugins: Plugins) -> Iterator[Check]:
    rows = [row for listing in (plugins.engines(), plugins.channels(), plugins.stores()) for row in listing]
    broken = [row for row in rows if isinstance(row, Broken)]
    for row in broken:
        yield Check(
            f"plugin {row.name}", "broken", row.error, f"reinstall or remove {row.dist or 'its package'}"
        )
    if not plugins.names("stores"):
        yield Check(
            "plugins",
            "broken",
            "the built-in plugins are not registered",
            "install pilothouse with pip or uv",
        )
    elif not broken:
        yield Check("plugins", "ok", f"{len(rows)} loaded")


def check_files(paths: Paths, disk: Disk | None = None) -> Iterator[Check]:
    disk = disk or Disk()
    if not paths.config_file.exists():
        yield Check(
            "config", "warn", f"there is no {paths.config_file}; the defaults are in force", "pilothouse init"
        )
    for file, forbidden, state in ((paths.config_file, 0o022, "broken"), (paths.env_file, 0o077, "warn")):
        if file.exists() and file.stat().st_mode & forbidden:
            mode = f"{file.stat().st_mode & 0o777:o}"
            what = "write" if forbidden == 0o022 else "read"
            yield Check("permissions", state, f"others may {what} {file} (mode {mode})", f"chmod 600 {file}")
    folder = _existing(paths.log_dir)
    if not disk.can_create_in(folder):
        yield Check("log", "broken", f"{folder} cannot be written", _make_writable(folder, disk))


def check_config(loaded: Loaded) -> Iterator[Check]:
    file = loaded.paths.config_file
    for warning in loaded.warnings:
        yield Check("config", "warn", str(warning), f"edit {file}")
    if file.exists() and not loaded.warnings:
        yield Check("config", "ok", str(file))
    people = loaded.config.people
    remote = [
        name for name, channel in loaded.config.channels.items() if channel.enabled and name != "terminal"
    ]
    configured = (*people.owners, *people.admins, *people.members)
    if remote and not configured and not _let_in():
        text = f"nobody may use {', '.join(remote)}"
        yield Check("people", "warn", text, "pilothouse pair")


def _let_in() -> bool:
    """Returns true if anyone was granted a role. Another check reports a broken store."""
    try:
        return bool(read_store(lambda tx: tx.people.everybody()))
    except PilothouseError:
        return False


def check_workspaces(config: Config) -> Iterator[Check]:
    places = {"workspace": config.gateway.default_workspace}
    places |= {f"workspace {name}": section.path for name, section in config.workspaces.items()}
    for name, place in places.items():
        if place and not Path(place).is_dir():
            yield Check(name, "broken", f"{place} is not a folder", f"mkdir -p {place}")
        elif place:
            yield Check(name, "ok", place)


def check_store(plugins: Plugins, config: Config, disk: Disk | None = None) -> Iterator[Check]:
    file, disk = store_file(config.store), disk or Disk()
    cure = "restore a backup, or move the file away" if file else ""
    if file:
        folder = _existing(file.parent)
        free = disk.free_mb(folder)
        if free < LOW_DISK_MB:
            yield Check("disk", "warn", f"{free} MB free", f"free some space for {file}")
            cure = f"free some space for {file}, then run doctor again; if the problem stays, {cure}"
        else:
            yield Check("disk", "ok", f"{free} MB free")
        if not file.exists():
            yield _check_first_store(file, folder, disk)
            return
        if locked := _locked(file, disk):
            text = f"{', '.join(map(str, locked))} cannot be written, so nothing can be stored"
            yield Check("store", "broken", text, " && ".join(_make_writable(path, disk) for path in locked))
            return
    try:
        nodes, problem = _look_into_store(plugins.store(config.store.id), config)
    except StoreTooOld as error:
        yield Check("store", "warn", str(error), "pilothouse up")
        return
    except (PilothouseError, OSError) as error:
        yield Check("store", "broken", str(error), cure)
        return
    where = str(file or config.store.id)
    yield Check(
        "store", "broken" if problem else "ok", problem or where, "restore a backup" if problem else ""
    )
    yield _check_role(nodes)


def _check_first_store(file: Path, folder: Path, disk: Disk) -> Check:
    if disk.can_create_in(folder):
        return Check("store", "ok", f"none yet: {file} is created when it is needed")
    return Check(
        "store",
        "broken",
        f"none yet, and {file} cannot be created: {folder} is not writable",
        f"{_make_writable(folder, disk)}, or set PILOTHOUSE_HOME to another folder",
    )


def _locked(file: Path, disk: Disk) -> list[Path]:
    """Lists the files of the store that this user may not write. SQLite creates files beside its own."""
    parts = (file, *(file.with_name(file.name + tail) for tail in ("-wal", "-shm")))
    locked = [part for part in parts if part.exists() and not disk.can_write(part)]
    return locked if disk.can_create_in(file.parent) else [file.parent, *locked]


def _make_writable(path: Path, disk: Disk) -> str:
    """Returns the command that makes it writable: chmod if this user owns it, else chown."""
    if disk.is_ours(path):
        return f"chmod {'u+rwx' if path.is_dir() else 'u+rw'} {path}"
    return f"chown {os.getuid()} {path}"


def _look_into_store(spec: StoreSpec, config: Config) -> tuple[list[Node], str]:
    import asyncio

    def unit(tx: Tx) -> tuple[list[Node], str]:
        return tx.nodes.list(), tx.audit.verify().why

    if spec.look is not None:
        with spec.look(config.store.settings) as found:
            nodes, tampered = found.read(unit)
            return nodes, found.check() or _tampering(tampered)

    async def look() -> tuple[list[Node], str]:
        store: Store
        async with spec.open(config.store.settings) as store:
            nodes, tampered = await store.read(unit)
            problem = await store.check() if isinstance(store, Checkable) else ""
            return nodes, problem or _tampering(tampered)

    return asyncio.run(look())


def _tampering(tampered: str) -> str:
    return f"the audit log was changed from outside: {tampered}" if tampered else ""


def _check_role(nodes: list[Node]) -> Check:
    holder = next((node for node in nodes if "engines" in node.roles), None)
    if holder is None:
        return Check("engines role", "ok", "nobody holds it: pilothouse up is not running")
    late = time.time() - holder.lease_until
    who = f"{holder.info.name}, pid {holder.info.pid} on {holder.info.host}"
    if late > 0:
        return Check("engines role", "warn", f"{who}, silent for {late:.0f} s", "pilothouse up takes over")
    return Check("engines role", "ok", who)


def check_engines(plugins: Plugins, config: Config) -> Iterator[Check]:
    """Warns of a missing engine; it is broken only if it is the default, or no real engine works."""
    found: dict[str, EngineStatus] = {}
    for row in plugins.engines():
        engine = config.engines.get(row.name)
        if not isinstance(row, Broken) and not (engine and not engine.enabled):
            found[row.name] = probe(row.spec, engine)
    real = any(status.available for name, status in found.items() if name != SCRIPTED)
    wanted = config.gateway.default_engine
    chosen = SCRIPTED if wanted == AUTO and not real else wanted
    for name, status in found.items():
        state: State = "ok" if status.available else "broken" if name == chosen else "warn"
        yield Check(f"engine {name}", state, status.problem or status.version or "works", status.fix)
        engine = config.engines.get(name)
        if (
            status.available
            and engine is not None
            and (problem := engine_problem(plugins.engine(name), engine))
        ):
            yield Check(f"engine {name}", "broken" if name == chosen else "warn", problem)
    if chosen == SCRIPTED and wanted == AUTO:
        yield Check(
            "engines", "warn", "no real engine works here, so the scripted one answers", "pilothouse engines"
        )


def check_channels(plugins: Plugins, config: Config) -> Iterator[Check]:
    for row in plugins.channels():
        channel = config.channels.get(row.name)
        if isinstance(row, Broken) or channel is None or not channel.enabled:
            continue
        name = f"channel {row.name}"
        if problem := channel_problem(row.spec, channel):
            yield Check(name, "broken", problem)
            continue
        trouble = channel_trouble(row.spec.id)
        found = [Check(name, "warn", one.text, one.fix) for one in channel_findings(row.spec, channel)]
        if trouble:
            found.insert(0, Check(name, "warn", trouble, "pilothouse status"))
        yield from found or [Check(name, "ok", row.spec.title)]


def _existing(folder: Path) -> Path:
    """Returns the nearest existing folder."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
