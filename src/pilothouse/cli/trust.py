"""`pilothouse trust PATH`, `pilothouse untrust PATH`, and the question about a folder's own settings when a chat opens.

Asked on a terminal only, once per folder and again when its settings have changed, and only if the folder has some. No
chat can answer: they can run programs as the user. What is stored is the content that the question was about.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pilothouse.bootstrap.people import terminal_user
from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.question import ask_yes
from pilothouse.cli.store import existing_folder, load_plain, read_store, write_store
from pilothouse.cli.table import cut, plain, width
from pilothouse.config import isolation_in
from pilothouse.core.engine import TrustedFile
from pilothouse.isolation.canaries import may_choose_jail
from pilothouse.isolation.support import find_support
from pilothouse.runtime.trust import (
    LAPSED,
    TrustState,
    choose_jail,
    has_lapsed,
    look_at_trust,
    trust,
    trusted_folders,
    untrust,
    wants_jail,
    was_decided,
)
from pilothouse.runtime.trust_files import Change, TrustedContent, has_section, read_content

if TYPE_CHECKING:
    from pilothouse.core.store import Tx

MEANING = """\
This folder is trusted now: {path}
Engines use its own settings and hooks, MCP servers and CLAUDE.md.
These can run programs as you. To undo: `pilothouse untrust {quoted}`
The approval mode, which says what needs a question, stays as it is."""

OFFERED_MEANING = (
    "If you trust the folder, engines use all of that, and some of it can run programs as you. "
    "If not, engines work here without it. The approval mode, which says what needs a question, stays as it is."
)
KEPT = {
    True: "The folder is trusted. To undo: `pilothouse untrust {quoted}`",
    False: "The folder is not trusted. To change that: `pilothouse trust {quoted}`",
}


JAIL_TOO = "Keep engines in a jail here, as in folders that are not trusted?"
JAIL_HINT = "Engines are in no jail here. To keep them in one: `pilothouse trust --jail {quoted}`"
CHANGED = "{path} was trusted. Since then these have changed:"
SHOWN = 40
LINE_COLUMNS = 160


@click.command("trust")
@click.argument("path", default=".")
@click.option("--list", "listed", is_flag=True, help="Show the trusted folders, and what is trusted in each.")
@click.option(
    "--jail/--no-jail",
    default=None,
    help='Keep engines in a jail there, or not, where isolation = "auto". Remembered.',
)
def command(path: str, listed: bool, jail: bool | None) -> None:
    """Let engines use a folder's own settings, hooks and servers."""
    files = obeyed_files()
    if listed:
        print(read_store(lambda tx: _render_trusted(tx, files)) or "No folder is trusted.")
        return
    folder = existing_folder(path)
    state = _look(folder, files)
    if state.changes:
        say(render_changes(folder, state.changes))
        if _on_terminal() and not ask_yes("Trust it as it is now?", default=False, err=True):
            print(f"Nothing was changed: engines ignore the settings of {folder}.")
            return
    _keep(folder, True, state.content)
    _settle_jail(folder, jail)
    say(
        "\n".join(
            [MEANING.format(path=folder, quoted=shlex.quote(folder)), *_render_content(state.content, files)]
        ),
        sys.stdout,
    )


@click.command("untrust")
@click.argument("path", default=".")
def untrust_command(path: str) -> None:
    """Make engines ignore a folder's own settings, hooks and servers again."""
    folder = os.path.realpath(os.path.expanduser(path))
    was = write_store(lambda tx: untrust(tx, folder, terminal_user(), time.time()))
    if not was:
        existing_folder(folder)  # a trusted folder may be gone; any other path without one is a mistake
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
    files = obeyed_files()
    state = _look(place, files)
    found = [file for file in files if Path(place, file.path).exists() and has_section(place, file)]
    if state.changes:
        say(render_changes(place, state.changes))
    elif not found or read_store(lambda tx: was_decided(tx, place)):
        return
    else:
        say(render_question(place, found))
        if read_store(lambda tx: has_lapsed(tx, place)):
            say(LAPSED)
    yes = ask_yes("Trust this folder?", default=False, err=True)
    _keep(place, yes, state.content)
    jail = f"\n{JAIL_HINT}" if yes and _may_choose_jail(place) else ""
    say(f"{KEPT[yes]}{jail}\n".format(quoted=shlex.quote(place)))


def render_question(place: str, found: Sequence[TrustedFile]) -> str:
    lines = _aligned([(one.path, one.means) for one in found])
    return "\n".join([f"{plain(place)} has settings that engines would use:", *lines, OFFERED_MEANING])


def render_changes(place: str, changes: Sequence[Change]) -> str:
    lines = [
        line for change in changes for line in (f"  {change.kind:7}  {plain(change.path)}", *_diff(change))
    ]
    more = [f"  … {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    return "\n".join([CHANGED.format(path=plain(place)), *lines[:SHOWN], *more, OFFERED_MEANING])


def _diff(change: Change) -> list[str]:
    return [cut(f"      {line[:1]} {plain(line[1:])}", LINE_COLUMNS) for line in change.lines]


def _aligned(rows: Sequence[tuple[str, str]]) -> list[str]:
    room = max((width(path) for path, _ in rows), default=0)
    return [f"  {path}{' ' * (room - width(path))}  {means}" for path, means in rows]


def _render_trusted(tx: Tx, files: Sequence[TrustedFile]) -> str:
    lines: list[str] = []
    for folder in trusted_folders(tx):
        state = look_at_trust(tx, folder, files)
        if not state.was_given:
            lines += [f"{plain(folder)}: no longer counts", f"  {LAPSED}"]
        elif state.holds:
            lines += [f"{plain(folder)}: trusted", *_render_content(state.content, files)]
        else:
            changed = [f"  {plain(str(change))}" for change in state.changes]
            lines += [f"{plain(folder)}: not trusted any more, because these have changed", *changed]
    return "\n".join(lines)


def _render_content(content: TrustedContent, files: Sequence[TrustedFile]) -> list[str]:
    means = {file.path: file.means for file in files}

    def meaning(path: str, named_in: str) -> str:
        if named_in:
            return f"started by {named_in}"
        return next((text for root, text in means.items() if f"{path}/".startswith(f"{root}/")), "")

    rows = [
        (plain(path), plain(meaning(path, seen.named_in))) for path, seen in sorted(content.files.items())
    ]
    return [*_aligned(rows[:SHOWN]), *([f"  … {len(rows) - SHOWN} more files"] if len(rows) > SHOWN else [])]


def _look(place: str, files: Sequence[TrustedFile]) -> TrustState:
    """Return the trust in a folder, with the content that a yes would store."""
    state = read_store(lambda tx: look_at_trust(tx, place, files))
    return state if state and state.was_given else TrustState(False, read_content(place, files))


def obeyed_files() -> tuple[TrustedFile, ...]:
    """Lists the files that installed engines obey in a trusted folder."""
    from pilothouse.plugins import Plugins

    return Plugins().trusted_files()


def _keep(place: str, yes: bool, content: TrustedContent | None = None) -> None:
    by, at = terminal_user(), time.time()
    content = content if content is not None else read_content(place, obeyed_files())
    write_store(lambda tx: trust(tx, place, by, at, content) if yes else untrust(tx, place, by, at))


def _settle_jail(place: str, said: bool | None) -> None:
    """Store whether engines are jailed in a trusted folder; ask on a terminal where that counts."""
    if said is None:
        if not _on_terminal() or not _may_choose_jail(place):
            return
        said = ask_yes(JAIL_TOO, default=read_store(lambda tx: wants_jail(tx, place)) or False, err=True)
    by, at, chosen = terminal_user(), time.time(), said
    write_store(lambda tx: choose_jail(tx, place, by, at, jail=chosen))


def _may_choose_jail(place: str) -> bool:
    return may_choose_jail(isolation_in(load_plain(), place).kind, os.geteuid(), find_support().problem)


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
