"""How a tree of processes is brought to an end: asked, then forced, each step with its own deadline.

Rule: every wait here ends. What survives even SIGKILL is reported, not waited for.

Ends what a killed gateway left running.

Rule: nothing of ours outlives us. A gateway that got `kill -9` could end nothing; the next one does, by the
marker that every process of ours carries in its environment.

The life of one process tree: noticing the leader's end, knowing its descendants, ending them all.

Rules: the leader's end, however it came, ends its tree; a stop asks before it forces, and each step has a
deadline; who stops twice gets the same answer.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from subprocess import Popen
from typing import NamedTuple

import anyio

from pilothouse.processes.leader import wait_reaped, wait_unreaped
from pilothouse.processes.procfs import Marker, ProcessId, ancestors, procfs_works, read_command
from pilothouse.processes.tree import GroupTree, ProcessTree, Tree

_LOOK_AGAIN_S = 0.02

# Soon after the start, then at the usual pace: an early escape is seen, and an idle process costs next to
# nothing.
_FIRST_LOOKS_S = (0.05, 0.1, 0.2, 0.5)
_MARGIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDeadlines:
    """How long each step of a stop may take. A step that is answered takes no longer than the answer."""

    input_s: float = 2.0
    """After its input was closed, for the leader to end by itself."""
    terminate_s: float = 3.0
    """After SIGTERM to the tree, for the leader to end."""
    kill_s: float = 2.0
    """After SIGKILL, for the kernel to clear up."""
    orphans_s: float = 1.0
    """After the leader's end, for what it left behind to obey SIGTERM."""


class Ending(StrEnum):
    """What it took to end the leader."""

    EXITED = "exited"
    INPUT_CLOSED = "input_closed"
    TERMINATED = "terminated"
    KILLED = "killed"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a process ended, and what of its tree could not be ended."""

    ending: Ending
    exit_code: int | None
    survivors: tuple[ProcessId, ...] = ()


async def clear(tree: Tree, *, terminate_s: float, kill_s: float) -> tuple[ProcessId, ...]:
    """End every member of the tree; return those that could not be ended."""
    tree.refresh(thorough=True)
    await _until_gone(tree, signal.SIGTERM, terminate_s)
    await _until_gone(tree, signal.SIGKILL, kill_s)
    return tree.alive()


async def _until_gone(tree: Tree, signum: signal.Signals, limit_s: float) -> None:
    # Signalled in a loop: what a member forked before its signal came is found on the next round.
    with anyio.move_on_after(limit_s):
        while tree.alive():
            tree.signal(signum)
            await anyio.sleep(_LOOK_AGAIN_S)
            tree.refresh()


class Leftover(NamedTuple):
    """A process of an earlier gateway. `ended` is False when even SIGKILL did not help."""

    id: ProcessId
    command: str
    ended: bool


async def sweep_leftovers(
    marker: Marker, *, terminate_s: float = 2.0, kill_s: float = 2.0
) -> tuple[Leftover, ...]:
    """End all processes that carry `marker`, and their descendants; return them.

    Call it at start, when this gateway alone holds the marker's store and has opened no process yet. We and
    our own ancestors are spared: a gateway may be restarted from a shell that its predecessor had started.
    Finds nothing where there is no /proc.
    """
    if not procfs_works():
        return ()
    tree = ProcessTree(marker=marker, spared=frozenset(ancestors(os.getpid())))
    tree.refresh(thorough=True)
    commands = {member: read_command(member.pid) for member in tree.alive()}
    survivors = await clear(tree, terminate_s=terminate_s, kill_s=kill_s) if commands else ()
    return tuple(Leftover(member, command, member not in survivors) for member, command in commands.items())


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
