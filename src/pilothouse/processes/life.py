"""The life of one process tree: noticing the leader's end, knowing its descendants, ending them all.

Rules: the leader's end, however it came, ends its tree; a stop asks before it forces, and each step has a
deadline; who stops twice gets the same answer.
"""

import signal
from collections.abc import Callable
from subprocess import Popen

import anyio

from pilothouse.processes.leader import wait_reaped, wait_unreaped
from pilothouse.processes.procfs import Marker, ProcessId, procfs_works
from pilothouse.processes.stopping import Ending, StopDeadlines, Stopped, clear
from pilothouse.processes.tree import GroupTree, ProcessTree, Tree

# Soon after the start, then at the usual pace: an early escape is seen, and an idle process costs next to
# nothing.
_FIRST_LOOKS_S = (0.05, 0.1, 0.2, 0.5)
_MARGIN_S = 1.0


class Life:
    """One leader and its tree. `watch` and `look` run in the background, sheltered from cancellation."""

    def __init__(
        self,
        popen: Popen[bytes],
        marker: Marker,
        *,
        deadlines: StopDeadlines,
        close_input: Callable[[], None],
        when_gone: Callable[[], None],
    ) -> None:
        self._popen = popen
        self._full = procfs_works()
        self._tree: Tree = ProcessTree(popen.pid, marker) if self._full else GroupTree(popen.pid)
        self._deadlines = deadlines
        self._close_input = close_input
        self._when_gone = when_gone
        self._ending: Ending | None = None
        self._survivors: tuple[ProcessId, ...] = ()
        self._cleared = anyio.Event()
        self._one_stop = anyio.Lock()
        self.exited = anyio.Event()
        self.exit_code: int | None = None

    async def watch(self) -> None:
        """Wait for the leader's end, then end what it left behind."""
        self.exit_code = await (wait_unreaped(self._popen.pid) if self._full else wait_reaped(self._popen))
        self.exited.set()
        limits = self._deadlines
        self._survivors = await clear(self._tree, terminate_s=limits.orphans_s, kill_s=limits.kill_s)
        self._when_gone()
        self._cleared.set()

    async def look(self, every_s: float) -> None:
        """Keep the list of descendants up to date: one that leaves parent and session is known by then."""
        pauses = iter(_FIRST_LOOKS_S)
        while not self.exited.is_set():
            self._tree.refresh()
            self._tree.alive()  # collects adopted orphans
            with anyio.move_on_after(min(next(pauses, every_s), every_s)):
                await self.exited.wait()

    async def stop(self, deadlines: StopDeadlines | None = None) -> Stopped:
        self._deadlines = deadlines or self._deadlines
        async with self._one_stop:
            if self._ending is None or self._ending is Ending.SURVIVED:
                self._ending = await self._end_leader(self._deadlines)
            if self.exited.is_set():
                with anyio.move_on_after(self._deadlines.orphans_s + self._deadlines.kill_s + _MARGIN_S):
                    await self._cleared.wait()
            survivors = self._survivors if self._cleared.is_set() else self._tree.alive()
            return Stopped(self._ending, self.exit_code, survivors)

    def reap(self) -> None:
        """Give up the leader's pid, once its tree is gone."""
        self._popen.poll()

    async def _end_leader(self, deadlines: StopDeadlines) -> Ending:
        if self.exited.is_set():
            return Ending.EXITED
        steps = (
            (Ending.INPUT_CLOSED, self._close_input, deadlines.input_s),
            (Ending.TERMINATED, self._terminate, deadlines.terminate_s),
            (Ending.KILLED, self._kill, deadlines.kill_s),
        )
        for ending, step, limit_s in steps:
            step()
            with anyio.move_on_after(limit_s):
                await self.exited.wait()
            if self.exited.is_set():
                return ending
        return Ending.SURVIVED

    def _terminate(self) -> None:
        self._tree.refresh(thorough=True)
        self._tree.signal(signal.SIGTERM)

    def _kill(self) -> None:
        self._tree.refresh(thorough=True)
        self._tree.signal(signal.SIGKILL)
