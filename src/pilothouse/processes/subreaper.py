"""Adopts orphaned descendants, which would otherwise go to the machine's first process, and reaps them.

Rules: the daemon asks for it once, at its start; importing this changes nothing. Nothing ever waits for "any child": that
would take an exit status away from the task that waits for it.
"""

import ctypes
import os
import sys
import time
from contextlib import suppress

import anyio

from pilothouse.core.clock import until_next
from pilothouse.processes.procfs import ProcessId, list_pids, procfs_works, read_process

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Adopt the orphans of all descendants from now on. Return False where the system cannot (macOS)."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


async def collect_orphans(*, patience_s: float = 60.0, every_s: float = 30.0) -> None:
    """Reap adopted orphans that no process tree saw alive. Runs in the daemon's task group until cancelled.

    A tree reaps the orphans that it knows. One that left its session, lost its parent and ended between two looks would
    stay a zombie. It differs from a child that a task waits for by its foreign session, and by being a zombie for
    `patience_s`.
    """
    first_seen: dict[ProcessId, float] = {}
    while procfs_works():
        now = time.monotonic()
        with suppress(OSError):  # no descriptor left: next time
            first_seen = {zombie: first_seen.get(zombie, now) for zombie in _foreign_zombies()}
        for zombie, since in first_seen.items():
            if now - since >= patience_s:
                reap(zombie.pid)
        await anyio.sleep(until_next(every_s, anyio.current_time()))


def reap(pid: int) -> bool:
    """Collect one ended child. Return False while it runs."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _foreign_zombies() -> list[ProcessId]:
    # Process trees live in sessions of their own, so a zombie in our session was started here, not adopted.
    infos = [info for pid in list_pids() if (info := read_process(pid))]
    us, session = os.getpid(), os.getsid(0)
    return [info.id for info in infos if info.parent == us and not info.alive and info.session != session]
