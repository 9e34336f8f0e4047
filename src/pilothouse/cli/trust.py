"""`pilothouse trust PATH` and `pilothouse untrust PATH`: whether a folder's own settings count.

The one question about trust: asked on a terminal, about a folder that brings something along, and never twice.

Nobody is asked in a pipe, and no chat can answer: what is obeyed can run programs as the user, so the user says it here.
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
from pilothouse.cli.context import existing_folder, read_store, write_store
from pilothouse.cli.question import ask_yes
from pilothouse.cli.table import plain, width
from pilothouse.core.engine import Obeyed
from pilothouse.runtime.trust import LAPSED, has_lapsed, trust, untrust, was_decided

MEANING = """\
Trusted: {path}
Engines now obey what this folder brings along: its settings and hooks, its MCP servers, its CLAUDE.md.
All of that can run programs as you. `pilothouse untrust {path}` takes it back."""

OFFERED_MEANING = (
    "Trusted, all of that counts, and some of it can run programs as you. "
    "Not trusted, engines work here without it."
)
KEPT = {
    True: "Trusted. `pilothouse untrust {path}` takes it back.",
    False: "Not trusted. `pilothouse trust {path}` changes that.",
}


@click.command("trust")
@click.argument("path", default=".")
def command(path: str) -> None:
    """Let engines obey the settings, hooks and servers that a folder brings along."""
    folder = existing_folder(path)
    write_store(lambda tx: trust(tx, folder, terminal_user(), time.time()))
    print(MEANING.format(path=folder))


@click.command("untrust")
@click.argument("path", default=".")
def untrust_command(path: str) -> None:
    """Take trust back: engines ignore what a folder brings along."""
    folder = os.path.realpath(os.path.expanduser(path))
    was = write_store(lambda tx: untrust(tx, folder, terminal_user(), time.time()))
    print(f"No longer trusted: {folder}" if was else f"It was not trusted: {folder}")


def settle_trust(folders: Sequence[str], said: bool | None = None, *, ask: bool = True) -> None:
    """Keeps what a flag said about each folder; else asks about those that nobody has settled."""
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
    return "\n".join([f"{plain(place)} brings along what engines would obey:", *lines, OFFERED_MEANING])


def _brought(place: str) -> list[Obeyed]:
    """What is there of all that the installed engines would obey."""
    from pilothouse.plugins import Broken, Plugins

    specs = [row.spec for row in Plugins().engines() if not isinstance(row, Broken)]
    named = {one.path: one for spec in specs for one in spec.obeys}
    return [one for one in named.values() if Path(place, one.path).exists()]


def _keep(place: str, yes: bool) -> None:
    by, at = terminal_user(), time.time()
    write_store(lambda tx: trust(tx, place, by, at) if yes else untrust(tx, place, by, at))


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
