"""Makes orphaned descendants ours, instead of the machine's first process, and buries them.

Rules: asked for once, by the daemon, at its start; importing this package changes nothing. Nobody ever
waits for "any child", for that would take an exit status away from whoever waits for its own.
"""

import ctypes
import os
import sys
import time
from contextlib import suppress

import anyio

from pilothouse.processes.procfs import ProcessId, list_pids, procfs_works, read_process

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> bool:
    """Adopt the orphans of all our descendants from now on. False where the system cannot (macOS)."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


async def collect_orphans(*, patience_s: float = 60.0, every_s: float = 15.0) -> None:
    """Bury adopted orphans that no process tree saw alive. Runs in the daemon's task group until cancelled.

    A tree buries the orphans that it knows. One that left its session, lost its parent and ended between
    two looks would stay a zombie for good. It is told from a child that somebody waits for by its foreign
    session, and by nobody having collected it for `patience_s`.
    """
    first_seen: dict[ProcessId, float] = {}
    while procfs_works():
        now = time.monotonic()
        with suppress(OSError):  # no descriptor left: next time
            first_seen = {zombie: first_seen.get(zombie, now) for zombie in _foreign_zombies()}
        for zombie, since in first_seen.items():
            if now - since >= patience_s:
                bury(zombie.pid)
        await anyio.sleep(every_s)


def bury(pid: int) -> bool:
    """Collect one ended child. False while it runs."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


def _foreign_zombies() -> list[ProcessId]:
    # Our trees live in sessions of their own, so what ended in our session was started by us, not adopted.
    infos = [info for pid in list_pids() if (info := read_process(pid))]
    us, session = os.getpid(), os.getsid(0)
    return [info.id for info in infos if info.parent == us and not info.alive and info.session != session]
