"""How a tree of processes is brought to an end: asked, then forced, each step with its own deadline.

Rule: every wait here ends. What survives even SIGKILL is reported, not waited for.
"""

import signal
from dataclasses import dataclass
from enum import StrEnum

import anyio

from pilothouse.processes.procfs import ProcessId
from pilothouse.processes.tree import Tree

_LOOK_AGAIN_S = 0.02


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
