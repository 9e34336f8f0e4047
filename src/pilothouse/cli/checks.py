"""What `doctor` looks at. Each check gives rows: what was looked at, how it is, and the exact fix."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.machine import probe
from pilothouse.cli.context import (
    channel_findings,
    channel_problem,
    channel_trouble,
    examined,
    read_store,
    store_file,
)
from pilothouse.config import AUTO, Config, InvalidConfig, Loaded, Paths, find_paths
from pilothouse.core.engine import EngineStatus
from pilothouse.core.errors import ConfigError, PilothouseError, StoreTooOld
from pilothouse.core.store import Node, Store, StoreSpec, Tx
from pilothouse.plugins import Broken, Plugins

State = Literal["ok", "warn", "broken"]
LOW_DISK_MB = 200
OLDEST_PYTHON = (3, 11)
SCRIPTED = "script"


class Check(Struct, frozen=True):
    name: str
    state: State
    text: str
    fix: str = ""


class Disk:
    """What the operating system says of a folder."""

    def free_mb(self, folder: Path) -> int:
        return shutil.disk_usage(folder).free // 1_000_000

    def takes_files(self, folder: Path) -> bool:
        return os.access(folder, os.W_OK | os.X_OK)

    def takes_words(self, file: Path) -> bool:
        return os.access(file, os.R_OK | os.W_OK)

    def is_ours(self, path: Path) -> bool:
        return path.stat().st_uid == os.getuid()


@runtime_checkable
class Checkable(Protocol):
    """A store that can look at itself: empty if it is whole, else what is wrong."""

    async def check(self) -> str: ...


def examine() -> Iterator[Check]:
    """Everything, in the order in which things depend on each other; without a configuration, the rest has no meaning."""
    yield check_python()
    plugins = Plugins()
    yield from check_plugins(plugins)
    try:
        paths = find_paths(os.environ)
    except ConfigError as error:
        yield Check("home", "broken", str(error), "name a folder in PILOTHOUSE_HOME, or move the file away")
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
            "plugins", "broken", "the built-in ones are not registered", "install pilothouse with pip or uv"
        )
    elif not broken:
        yield Check("plugins", "ok", f"{len(rows)} loaded")


def check_files(paths: Paths, disk: Disk | None = None) -> Iterator[Check]:
    disk = disk or Disk()
    if not paths.config_file.exists():
        yield Check("config", "warn", f"there is no {paths.config_file}; defaults hold", "pilothouse init")
    for file, forbidden, state in ((paths.config_file, 0o022, "broken"), (paths.env_file, 0o077, "warn")):
        if file.exists() and file.stat().st_mode & forbidden:
            mode = f"{file.stat().st_mode & 0o777:o}"
            what = "write" if forbidden == 0o022 else "read"
            yield Check("permissions", state, f"others may {what} {file} (mode {mode})", f"chmod 600 {file}")
    folder = _existing(paths.log_dir)
    if not disk.takes_files(folder):
        yield Check("log", "broken", f"{folder} cannot be written", _permit(folder, disk))


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
    """Whether anybody was granted anything. What is wrong with the store is another check's matter."""
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
            cure = f"free some space for {file}, then ask again; only if it stays so, {cure}"
        else:
            yield Check("disk", "ok", f"{free} MB free")
        if not file.exists():
            yield _check_first_store(file, folder, disk)
            return
        if locked := _locked(file, disk):
            text = f"{', '.join(map(str, locked))} cannot be written, so nothing can be kept"
            yield Check("store", "broken", text, " && ".join(_permit(path, disk) for path in locked))
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
    if disk.takes_files(folder):
        return Check("store", "ok", f"none yet: {file} is made when it is needed")
    return Check(
        "store",
        "broken",
        f"none yet, and {file} cannot be made: {folder} cannot be written",
        f"{_permit(folder, disk)}, or name another folder in PILOTHOUSE_HOME",
    )


def _locked(file: Path, disk: Disk) -> list[Path]:
    """What of the store this user may not write. SQLite makes and removes files beside its own, as writable as that."""
    parts = (file, *(file.with_name(file.name + tail) for tail in ("-wal", "-shm")))
    locked = [part for part in parts if part.exists() and not disk.takes_words(part)]
    return locked if disk.takes_files(file.parent) else [file.parent, *locked]


def _permit(path: Path, disk: Disk) -> str:
    """The owner needs only the right to write: to own it once more changes nothing."""
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
            return nodes, found.check() or _hand(tampered)

    async def look() -> tuple[list[Node], str]:
        store: Store
        async with spec.open(config.store.settings) as store:
            nodes, tampered = await store.read(unit)
            problem = await store.check() if isinstance(store, Checkable) else ""
            return nodes, problem or _hand(tampered)

    return asyncio.run(look())


def _hand(tampered: str) -> str:
    return f"the audit log was changed by another hand: {tampered}" if tampered else ""


def _check_role(nodes: list[Node]) -> Check:
    holder = next((node for node in nodes if "engines" in node.roles), None)
    if holder is None:
        return Check("engines role", "ok", "nobody holds it: pilothouse up is not running")
    late = time.time() - holder.lease_until
    who = f"{holder.info.name}, pid {holder.info.pid} on {holder.info.host}"
    if late > 0:
        return Check("engines role", "warn", f"{who}, silent since {late:.0f} s", "pilothouse up takes over")
    return Check("engines role", "ok", who)


def check_engines(plugins: Plugins, config: Config) -> Iterator[Check]:
    """An engine that is missing is no fault, unless it is the chosen one or the only kind there is."""
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
        if status.available and engine is not None and (problem := examined(plugins.engine(name), engine)):
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
    """The nearest folder that is there."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
