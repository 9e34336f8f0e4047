"""Limits of a jail, and the mechanisms that hold it to them.

A control group counts the memory and the processes of the whole jail. Where none can be made, the memory is limited for
each process by RLIMIT_DATA, and the processes by RLIMIT_NPROC, which does not count for root. RLIMIT_AS is not used: node
reserves 10 GB of addresses for each WebAssembly memory, and `fetch` needs one.
"""

from __future__ import annotations

import os
import resource
import shutil

from msgspec import Struct

from pilothouse.core.isolation import Isolation, Limits
from pilothouse.isolation.cgroup import Bases

PROCESSES = 2048
OPEN_FILES = 16_384
MEMORY_SHARE = 0.75
"""The share of the machine's memory that a jail may use."""
MB = 1024 * 1024
_SYSTEM_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"
"""Folders that every jail shows."""
NO_LIMITER = "prlimit is missing (install util-linux): open files and core files are not limited"


class Bounds(Struct, frozen=True):
    processes: int
    open_files: int
    memory_bytes: int


def bounds_of(isolation: Isolation) -> Bounds:
    """Return the limits of a jail: the operator's or the usual ones, and lower ones that the workspace's own file wishes."""
    usual = Limits(PROCESSES, OPEN_FILES, int(machine_memory() * MEMORY_SHARE) // MB)
    processes, files, memory = (
        _lower(getattr(isolation.limits, name) or getattr(usual, name), getattr(isolation.own_limits, name))
        for name in ("processes", "open_files", "memory_mb")
    )
    return Bounds(processes, _lower(files, _hard_files()), memory * MB)


def _lower(value: int, wished: int | None) -> int:
    return min(value, wished) if wished else value


def _hard_files() -> int | None:
    """A limit cannot be raised above the one that we have."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return None if hard == resource.RLIM_INFINITY else hard


def machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def limiter_words(bounds: Bounds, bases: Bases) -> list[str]:
    """Return the words before a command that limit each of its processes; none where the system has no `prlimit`."""
    program = shutil.which("prlimit", path=_SYSTEM_PATH)
    if program is None:
        return []
    words = [program, "--core=0:0", f"--nofile={bounds.open_files}:{bounds.open_files}"]
    words.append(f"--nproc={bounds.processes}:{bounds.processes}")
    if "memory" not in bases.limited:
        words.append(f"--data={bounds.memory_bytes}:{bounds.memory_bytes}")
    return [*words, "--"]


def describe_limits(bounds: Bounds, bases: Bases, *, is_root: bool) -> tuple[str, bool]:
    """Say which limits hold here, and whether all of them do."""
    if shutil.which("prlimit", path=_SYSTEM_PATH) is None:
        return NO_LIMITER, False
    size, whole = f"{bounds.memory_bytes / MB / 1024:.1f} GB of memory", bool(bases.limited)
    told = [f"{bounds.open_files} open files in each process", "no core files"]
    if "pids" in bases.limited or not is_root:
        told.insert(0, f"{bounds.processes} processes")
    else:
        told.append("the number of processes is NOT limited, because Pilothouse runs as root")
        whole = False
    if "memory" in bases.limited:
        return ", ".join([f"{size} together", *told]), whole
    return ", ".join([f"{size} in each process (no control group can be made here)", *told]), False
