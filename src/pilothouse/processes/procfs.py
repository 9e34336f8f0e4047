"""Reads what Linux says about processes in /proc, and names open files by it.

Rules: a process is a pid *and* its start time, because the pid alone may belong to another process by now. "I cannot
look" (no descriptor left) is an `OSError`, and never mistaken for an ended process.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_KERNEL_THREAD = 0x00200000
_ENDED_OR_FOREIGN = (FileNotFoundError, ProcessLookupError, PermissionError)


class ProcessId(NamedTuple):
    """Names one process for as long as the machine runs. `started` is in clock ticks since boot."""

    pid: int
    started: int


class Marker(NamedTuple):
    """An environment variable that tells which gateway, or which start, a process belongs to."""

    name: str
    value: str


class ProcessInfo(NamedTuple):
    """One process at one moment."""

    id: ProcessId
    state: str
    parent: int
    group: int
    session: int
    threads: int
    flags: int

    @property
    def alive(self) -> bool:
        # A process whose main thread has ended shows as a zombie while its other threads run on.
        return self.state not in "ZX" or self.threads > 1

    @property
    def kernel(self) -> bool:
        return bool(self.flags & _KERNEL_THREAD)

    @property
    def stopped(self) -> bool:
        return self.state in "Tt"


def procfs_works() -> bool:
    """Return False on macOS, and on Linux where /proc is not mounted."""
    return os.path.exists("/proc/self/stat")


def list_pids() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def read_process(pid: int) -> ProcessInfo | None:
    """Return the process, or None if there is none with this pid."""
    line = _read(pid, "stat")
    # The name, in brackets, may itself hold brackets and spaces: count from the last bracket.
    fields = line[line.rfind(b")") + 2 :].split()
    if len(fields) < 20:
        return None
    return ProcessInfo(
        id=ProcessId(pid, int(fields[19])),
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        threads=int(fields[17]),
        flags=int(fields[6]),
    )


def carries(pid: int, marker: Marker) -> bool | None:
    """Return whether the process was started with this variable.

    None if it shows no environment: it has ended, or is in the middle of an exec, so ask again later.
    """
    try:
        environment = _read_bytes(pid, "environ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except PermissionError:
        return False
    wanted = os.fsencode(f"\0{marker.name}={marker.value}\0")
    return wanted in b"\0" + environment if environment else None


def variable_names(pid: int) -> set[str]:
    """Name the variables that the process was started with; none where it is not ours to see."""
    return {os.fsdecode(entry.partition(b"=")[0]) for entry in _read(pid, "environ").split(b"\0") if entry}


def read_command(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode("utf-8", "replace").strip()


def ancestors(pid: int) -> set[int]:
    """Return the process itself, its parent, and so on up to the first."""
    line: set[int] = set()
    while pid and pid not in line and (info := read_process(pid)):
        line.add(pid)
        pid = info.parent
    return line


@contextmanager
def open_socket(path: str) -> Iterator[str]:
    """Name a Unix socket by a short path that leads to it alone, also if another file takes its place. Raises `OSError` where it is
    no socket, but a link to one: the program that serves it may be hostile."""
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK), path)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _read(pid: int, name: str) -> bytes:
    try:
        return _read_bytes(pid, name)
    except _ENDED_OR_FOREIGN:
        return b""


def _read_bytes(pid: int, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        return file.readall()
