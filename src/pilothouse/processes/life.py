"""Ends a process tree: asks, then forces, each step with its own deadline.

Rules: every wait ends, and a process that survives SIGKILL is reported, not waited for. The leader's end, however it
came, ends its tree. Stopping twice gives the same answer. Nothing outlives the gateway but what a keeper keeps for a while:
what one that got `kill -9` left running, the next one finds by the marker that every process carries in its environment,
and ends.
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
from pilothouse.processes.tree import KEPT_MARKER, GroupTree, ProcessTree, Tree

_LOOK_AGAIN_S = 0.02

# Soon after the start, then at the usual pace: an early escape is seen, and an idle process costs nearly nothing.
_FIRST_LOOKS_S = (0.05, 0.1, 0.2, 0.5)
_MARGIN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StopDeadlines:
    """Longest time of each step of a stop."""

    input_s: float = 2.0
    """For the leader to end by itself, after its input was closed."""
    terminate_s: float = 3.0
    """For the leader to end, after SIGTERM to the tree."""
    kill_s: float = 2.0
    """For the kernel to clear up, after SIGKILL."""
    orphans_s: float = 1.0
    """For what the leader left behind to obey SIGTERM."""


class Ending(StrEnum):
    """The step that ended the leader."""

    EXITED = "exited"
    INPUT_CLOSED = "input_closed"
    TERMINATED = "terminated"
    KILLED = "killed"
    SURVIVED = "survived"


@dataclass(frozen=True, slots=True)
class Stopped:
    """The end of a process; `survivors` could not be ended."""

    ending: Ending
    exit_code: int | None
    survivors: tuple[ProcessId, ...] = ()


async def clear(tree: Tree, *, terminate_s: float, kill_s: float) -> tuple[ProcessId, ...]:
    """End every member of the tree; return those that could not be ended."""
    tree.refresh(thorough=True)
    await _signal_until_ended(tree, signal.SIGTERM, terminate_s)
    await _signal_until_ended(tree, signal.SIGKILL, kill_s)
    return tree.alive()


async def _signal_until_ended(tree: Tree, signum: signal.Signals, limit_s: float) -> None:
    # Signalled in a loop: the next round finds what a member forked before its signal came.
    with anyio.move_on_after(limit_s):
        while (alive := tree.alive()) or not tree.is_settled:
            tree.signal(signum)
            await anyio.sleep(_LOOK_AGAIN_S if alive else 0)
            tree.refresh()


class Leftover(NamedTuple):
    """A process of an earlier gateway. `ended` is False if it survived SIGKILL."""

    id: ProcessId
    command: str
    ended: bool


async def sweep_leftovers(
    marker: Marker, *, living: frozenset[int] = frozenset(), terminate_s: float = 2.0, kill_s: float = 2.0
) -> tuple[Leftover, ...]:
    """End all processes that carry `marker`, and their descendants; return them.

    Call it when this gateway has taken the engines of the marker's store and opened none yet. This process and its
    ancestors are spared: a gateway may be restarted from a shell that its predecessor had started. So is what this
    process and the other `living` ones of the store have started, and processes under a keeper: they end it themselves.
    Finds nothing where there is no /proc.
    """
    if not procfs_works():
        return ()
    owners = living | {os.getpid()}
    tree = ProcessTree(
        marker=marker, spared=frozenset(ancestors(os.getpid())), spared_name=KEPT_MARKER, owners=owners
    )
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
        """Keep the list of descendants up to date, so that one which leaves its parent and session is already known."""
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
        """Release the leader's pid, once its tree has ended."""
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
