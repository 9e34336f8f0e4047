"""`pilothouse trust PATH`, `pilothouse untrust PATH`, and the question about a folder's own settings when a chat opens.

Asked on a terminal only, once per folder, and only if the folder has such settings. No chat can answer: they can run
programs as the user.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from pilothouse.bootstrap.people import terminal_user
from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.question import ask_yes
from pilothouse.cli.store import existing_folder, read_store, write_store
from pilothouse.cli.table import plain, width
from pilothouse.core.engine import Obeyed
from pilothouse.runtime.trust import LAPSED, has_lapsed, trust, untrust, was_decided

MEANING = """\
Trusted: {path}
Engines now use this folder's own settings and hooks, MCP servers and CLAUDE.md.
These can run programs as you. To undo: `pilothouse untrust {path}`"""

OFFERED_MEANING = (
    "If you trust the folder, engines use all of that, and some of it can run programs as you. "
    "If not, engines work here without it."
)
KEPT = {
    True: "Trusted. To undo: `pilothouse untrust {path}`",
    False: "Not trusted. To change that: `pilothouse trust {path}`",
}


@click.command("trust")
@click.argument("path", default=".")
def command(path: str) -> None:
    """Let engines use a folder's own settings, hooks and servers."""
    folder = existing_folder(path)
    write_store(lambda tx: trust(tx, folder, terminal_user(), time.time()))
    print(MEANING.format(path=folder))


@click.command("untrust")
@click.argument("path", default=".")
def untrust_command(path: str) -> None:
    """Make engines ignore a folder's own settings, hooks and servers again."""
    folder = os.path.realpath(os.path.expanduser(path))
    was = write_store(lambda tx: untrust(tx, folder, terminal_user(), time.time()))
    print(f"No longer trusted: {folder}" if was else f"It was not trusted: {folder}")


def settle_trust(folders: Sequence[str], said: bool | None = None, *, ask: bool = True) -> None:
    """Stores what a flag says about each folder; else asks about those that are undecided."""
    places = list(dict.fromkeys(os.path.realpath(os.path.expanduser(folder)) for folder in folders))
    for place in (place for place in places if os.path.isdir(place)):
        if said is not None:
            _keep(place, said)
        elif ask and _on_terminal():
            _ask_about(place)


def _ask_about(place: str) -> None:
    found = _brought(place)
    if not found or read_store(lambda tx: was_decided(tx, place)):
        return
    say(render_question(place, found))
    if read_store(lambda tx: has_lapsed(tx, place)):
        say(LAPSED)
    yes = ask_yes("Trust this folder?", default=False, err=True)
    _keep(place, yes)
    say(KEPT[yes].format(path=place) + "\n")


def render_question(place: str, found: Sequence[Obeyed]) -> str:
    room = max(width(one.path) for one in found)
    lines = [f"  {one.path}{' ' * (room - width(one.path))}  {one.means}" for one in found]
    return "\n".join([f"{plain(place)} has settings that engines would use:", *lines, OFFERED_MEANING])


def _brought(place: str) -> list[Obeyed]:
    """Lists the files in the folder that installed engines would obey."""
    from pilothouse.plugins import Broken, Plugins

    specs = [row.spec for row in Plugins().engines() if not isinstance(row, Broken)]
    named = {one.path: one for spec in specs for one in spec.obeys}
    return [one for one in named.values() if Path(place, one.path).exists()]


def _keep(place: str, yes: bool) -> None:
    by, at = terminal_user(), time.time()
    write_store(lambda tx: trust(tx, place, by, at) if yes else untrust(tx, place, by, at))


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
