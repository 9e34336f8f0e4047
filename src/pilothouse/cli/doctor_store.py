"""The checks of `pilothouse doctor` about the disk and the store: what the gateway would write is tried, or looked at."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from pilothouse.bootstrap.machine import is_alive
from pilothouse.cli.store import store_file
from pilothouse.config import Config
from pilothouse.core.errors import PilothouseError, StoreTooOld
from pilothouse.core.store import Node, Store, StoreSpec, Tx
from pilothouse.plugins import Plugins

State = Literal["ok", "off", "warn", "broken"]
LOW_DISK_MB = 200


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
        """Tries it: permissions alone say yes to root where nobody can write, as in /proc."""
        try:
            with tempfile.TemporaryDirectory(prefix=".pilothouse-", dir=folder):
                return True
        except OSError:
            return False

    def can_write(self, file: Path) -> bool:
        return os.access(file, os.R_OK | os.W_OK)

    def permits(self, path: Path) -> bool:
        """Returns true if the permissions are not what keeps us from writing."""
        return os.access(path, os.W_OK)

    def is_ours(self, path: Path) -> bool:
        return path.stat().st_uid == os.getuid()


@runtime_checkable
class Checkable(Protocol):
    """A store that can check itself: empty if it is intact, else the problem."""

    async def check(self) -> str: ...


def check_store(plugins: Plugins, config: Config, disk: Disk | None = None) -> Iterator[Check]:
    file, disk = store_file(config.store), disk or Disk()
    cure = f"pilothouse restore BACKUP, or move {file} away" if file else ""
    if file:
        folder = existing_parent(file.parent)
        free = disk.free_mb(folder)
        if free < LOW_DISK_MB:
            yield Check("disk", "warn", f"{free} MB free", f"free some space for {file}")
            cure = f"free some space for {file}, then run doctor again; if the problem stays, {cure}"
        else:
            yield Check("disk", "ok", f"{free} MB free")
        if not file.exists():
            yield _check_first_store(file, folder, disk)
            yield _check_role([])
            return
        yield from _check_privacy(file)
        if locked := _locked(file, disk):
            text = f"{', '.join(map(str, locked))} cannot be written, so nothing can be stored"
            yield Check("store", "broken", text, " && ".join(make_writable(path, disk) for path in locked))
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
        "store",
        "broken" if problem else "ok",
        problem or where,
        "pilothouse restore BACKUP" if problem else "",
    )
    yield _check_role(nodes)


def _check_first_store(file: Path, folder: Path, disk: Disk) -> Check:
    if disk.can_create_in(folder):
        return Check("store", "ok", f"none yet: {file} is created when it is needed")
    return Check(
        "store",
        "broken",
        f"none yet, and {file} cannot be created: {folder} is not writable",
        make_writable(folder, disk),
    )


def _check_privacy(file: Path) -> Iterator[Check]:
    """Finds what others may read of the store, and a folder in which they could replace it. `up` mends most of it."""
    for part in filter(Path.exists, _parts(file)):
        if (mode := part.stat().st_mode) & 0o077:
            yield Check(
                "permissions",
                "warn",
                f"others may read {part} (mode {mode & 0o777:o})",
                f"chmod 600 {shlex.quote(str(part))}",
            )
    mode = file.parent.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        text = f"others may replace files in {file.parent} (mode {mode & 0o777:o})"
        yield Check("permissions", "warn", text, f"chmod go-w {shlex.quote(str(file.parent))}")


def _parts(file: Path) -> list[Path]:
    return [file.with_name(file.name + tail) for tail in ("", "-wal", "-shm")]


def _locked(file: Path, disk: Disk) -> list[Path]:
    """Lists the files of the store that this user may not write. SQLite creates files beside its own."""
    locked = [part for part in _parts(file) if part.exists() and not disk.can_write(part)]
    return locked if disk.can_create_in(file.parent) else [file.parent, *locked]


def make_writable(path: Path, disk: Disk) -> str:
    """Returns the fix: chmod if this user owns it, else chown. A read-only disk needs another folder."""
    if disk.permits(path):
        return "export PILOTHOUSE_HOME=~/pilothouse"
    if disk.is_ours(path):
        return f"chmod {'u+rwx' if path.is_dir() else 'u+rw'} {shlex.quote(str(path))}"
    return f"chown {os.getuid()} {shlex.quote(str(path))}"


def _look_into_store(spec: StoreSpec, config: Config) -> tuple[list[Node], str]:
    import asyncio

    def unit(tx: Tx) -> tuple[list[Node], str]:
        return tx.nodes.list(), tx.audit.verify().why

    if spec.open_read_only is not None:
        with spec.open_read_only(config.store.settings) as found:
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
    if holder is None or is_alive(holder.info) is False:
        return Check("gateway", "off", "not running", "pilothouse up")
    late = time.time() - holder.lease_until
    who = f"{holder.info.name}, pid {holder.info.pid} on {holder.info.host}"
    if late > 0:
        return Check("gateway", "warn", f"{who}, has not reported for {late:.0f} s", "pilothouse up")
    return Check("gateway", "ok", who)


def existing_parent(folder: Path) -> Path:
    """Returns the nearest existing folder."""
    return next((place for place in (folder, *folder.parents) if place.exists()), Path("/"))
