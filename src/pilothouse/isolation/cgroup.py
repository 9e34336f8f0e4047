"""A control group around one jail: the kernel holds its memory and the number of its processes, also for root.

Version 2 needs a part of the tree that was given to us: a service with `Delegate=`, or root. A group that holds processes
cannot have limited groups below it, so a gateway that is alone in its group moves into one below. Version 1 has one tree
for each controller, and needs root.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

MOUNTED = "/sys/fs/cgroup"
OURS = "/proc/self/cgroup"
CONTROLLERS = ("memory", "pids")
PREFIX = "pilothouse-"
LEAF = "pilothouse-gateway"
EMPTY_WITHIN_S = 0.25
_ENTER = 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 126; shift; done; shift; exec "$@"'


class Bases(Struct, frozen=True):
    """The folders below which groups can be made, by the controller that each limits; empty where none can."""

    folders: tuple[tuple[str, str], ...] = ()
    version: int = 0

    @property
    def limited(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.folders)


@lru_cache(maxsize=1)
def find_bases() -> Bases:
    """Look once per process, by making a group."""
    return look_for_bases(MOUNTED, OURS)


def look_for_bases(mounted: str, ours: str) -> Bases:
    try:
        lines = Path(ours).read_text().splitlines()
    except OSError:
        return Bases()
    own = {names: path for _, names, path in (line.split(":", 2) for line in lines if line.count(":") > 1)}
    if os.path.exists(os.path.join(mounted, "cgroup.controllers")):
        return _second(Path(mounted), own.get("", "/"))
    found = [(name, f"{mounted}/{name}{own[name].rstrip('/')}") for name in CONTROLLERS if name in own]
    return Bases(tuple(one for one in found if _can_make(Path(one[1]))), 1)


def _second(mounted: Path, own: str) -> Bases:
    """Try our own group, then the one above it: one of them may have limited groups below it."""
    here = mounted / own.strip("/")
    with suppress(OSError):
        _make_room(here)
    for folder in (here, here.parent) if here != mounted else (here,):
        with suppress(OSError):
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
            if _can_make(folder):
                return Bases(tuple((name, str(folder)) for name in CONTROLLERS), 2)
    return Bases()


def _make_room(folder: Path) -> None:
    """Move this process into a group below its own, if nobody else is in there. Raises `OSError` where we may not."""
    own = str(os.getpid())
    if folder.name != LEAF and (folder / "cgroup.procs").read_text().split() == [own]:
        (folder / LEAF).mkdir(exist_ok=True)
        (folder / LEAF / "cgroup.procs").write_text(own)


def _can_make(folder: Path) -> bool:
    tried = folder / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    try:
        if not os.access(folder / "cgroup.procs", os.W_OK):
            return False
        tried.mkdir()
        tried.rmdir()
    except OSError:
        return False
    return True


@contextmanager
def open_group(bases: Bases, memory_bytes: int, processes: int) -> Iterator[tuple[str, ...]]:
    """Make the group of one jail, and remove it afterwards. Yields its folders; none where no group can be made."""
    name = f"{PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    folders = tuple(dict.fromkeys(os.path.join(base, name) for _, base in bases.folders))
    try:
        for folder in folders:
            os.mkdir(folder)
        for file, value in _settings(bases, name, memory_bytes, processes):
            Path(file).write_text(value)
        yield folders
    finally:
        for folder in folders:
            _remove(folder)


def _settings(bases: Bases, name: str, memory_bytes: int, processes: int) -> Iterator[tuple[str, str]]:
    files = {"memory": "memory.max" if bases.version == 2 else "memory.limit_in_bytes", "pids": "pids.max"}
    values = {"memory": str(memory_bytes), "pids": str(processes)}
    for controller, base in bases.folders:
        yield os.path.join(base, name, files[controller]), values[controller]
    swap = [os.path.join(base, name, "memory.swap.max") for kind, base in bases.folders if kind == "memory"]
    yield from ((file, "0") for file in swap if os.path.exists(file))


def enter_words(folders: Sequence[str]) -> list[str]:
    """Return the words before a command that put it into the group."""
    return ["/bin/sh", "-c", _ENTER, "sh", *folders, "--"] if folders else []


def _remove(folder: str) -> None:
    """The kernel needs a moment to forget processes that have ended."""
    until = time.monotonic() + EMPTY_WITHIN_S
    while os.path.isdir(folder):
        try:
            os.rmdir(folder)
        except OSError:
            if time.monotonic() > until:
                return
            time.sleep(0.005)


def sweep_groups(bases: Bases) -> None:
    """Remove the groups that killed gateways left."""
    for folder in dict.fromkeys(base for _, base in bases.folders):
        with suppress(OSError):
            for name in os.listdir(folder):
                pid = name.removeprefix(PREFIX).partition("-")[0]
                gone = pid.isdigit() and not os.path.exists(f"/proc/{pid}")
                if name.startswith(PREFIX) and gone:
                    with suppress(OSError):
                        os.rmdir(os.path.join(folder, name))
