"""Refuse every command that changes something while an engine runs it.

Rule: people, trust, rules, configuration and answers are changed by a person in their own terminal. `READING` lists the
commands that an engine may run; every other command is refused, those of plugins too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from pilothouse.core.engine import NODE_MARKER
from pilothouse.core.errors import PilothouseError

READING = frozenset(
    {
        "doctor",
        "status",
        "service status",
        "service logs",
        "sessions",
        "turns",
        "trace",
        "replay",
        "asks",
        "asks show",
        "users",
        "watch",
        "rules",
        "rules list",
        "tasks",
        "tasks list",
        "tasks show",
        "tasks log",
        "lanes",
        "lanes list",
        "lanes status",
        "cost",
        "metrics",
        "audit",
        "audit verify",
        "engines",
        "channels",
        "config",
        "config show",
        "config path",
        "config check",
    }
)
REFUSAL = (
    "`pilothouse {words}` was not run: an engine started it. Engines may not change people, trust, rules, tasks or the "
    "configuration, answer asks, show pairing codes, or start a gateway or a chat. Run it in your own terminal."
)


def refuse_engines(name: str, command: click.Command, args: Sequence[str]) -> None:
    """Raise `PilothouseError` if the command may change something and an engine runs it."""
    words = changing_words(name, command, args)
    if words and started_by_engine():
        raise PilothouseError(REFUSAL.format(words=words))


def changing_words(name: str, command: click.Command, args: Sequence[str]) -> str:
    """Return the command's words, or an empty text if it only reads.

    Any argument that names a subcommand counts as one: where an option's value looks like one, too much is refused.
    """
    known = command.commands if isinstance(command, click.Group) else {}
    named = [f"{name} {word}" for word in args if word in known] or [name]
    return next((words for words in named if words not in READING), "")


def started_by_engine() -> bool:
    """Look at this process and its ancestors. Only the own environment can be seen where there is no /proc."""
    from pilothouse.processes import PROCESS_MARKER
    from pilothouse.processes.procfs import ancestors, variable_names

    markers = {NODE_MARKER, PROCESS_MARKER}
    if not markers.isdisjoint(os.environ):
        return True
    line = ancestors(os.getpid())
    return any(not markers.isdisjoint(variable_names(pid)) for pid in line) or _is_below_gateway(line)


def _is_below_gateway(line: set[int]) -> bool:
    """A gateway adopts the orphans of its engines: a process that left its parents and its markers is found there."""
    from pilothouse.bootstrap.machine import is_alive
    from pilothouse.cli.store import read_store

    try:
        nodes = read_store(lambda tx: tx.nodes.list()) or ()
    except PilothouseError:  # the command itself says what is wrong with the configuration or the store
        return False
    return any(node.info.pid in line and is_alive(node.info) for node in nodes)
