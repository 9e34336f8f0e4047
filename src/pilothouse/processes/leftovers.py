"""Ends what a killed gateway left running.

Rule: nothing of ours outlives us. A gateway that got `kill -9` could end nothing; the next one does, by the
marker that every process of ours carries in its environment.
"""

import os
from typing import NamedTuple

from pilothouse.processes.procfs import Marker, ProcessId, ancestors, procfs_works, read_command
from pilothouse.processes.stopping import clear
from pilothouse.processes.tree import ProcessTree


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
