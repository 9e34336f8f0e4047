"""`pilothouse sessions` lists the engines' sessions; `pilothouse sessions export ID` prints the transcript of one."""

from __future__ import annotations

import sys
import time
from typing import NoReturn

import click
import msgspec

from pilothouse.cli.options import ListGroup, json_option, limit_option
from pilothouse.cli.store import NOTHING_YET, read_store
from pilothouse.cli.table import ago, money, print_json, print_table
from pilothouse.core.conversation import Session
from pilothouse.core.errors import ConfigError
from pilothouse.core.store import Tx
from pilothouse.core.transcript import Entry
from pilothouse.runtime.commands.engine_sessions import PREFIX
from pilothouse.runtime.transcripts.render import heading, json_lines, markdown
from pilothouse.runtime.turns.prompt import unframe

HEADS = ("SESSION", "ENGINE", "TURNS", "COST", "USED", "CONVERSATION", "WORKSPACE", "FIRST WORDS")
MOST = 1000
MOST_ENTRIES = 1_000_000


@click.group("sessions", cls=ListGroup, invoke_without_command=True)
@limit_option
@json_option
@click.pass_context
def command(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List past sessions, last used first, with the words that each began with."""
    if ctx.invoked_subcommand is not None:
        return
    found = read_store(lambda tx: [(one, _first_words(tx, one)) for one in _last_used(tx, limit)]) or []
    if as_json:
        print_json([{**msgspec.to_builtins(session), "first_words": words} for session, words in found])
        return
    print_table(
        HEADS,
        [_row(session, words, time.time()) for session, words in found],
        NOTHING_YET,
        optional=("TURNS", "COST", "CONVERSATION"),
    )


@command.command("export")
@click.argument("id")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "jsonl"]),
    default="md",
    show_default=True,
    help="How to print it.",
)
def export(id: str, form: str) -> None:
    """Print the transcript of a session: what was said, done and asked in it. ID may be the beginning of one."""
    session, entries = read_store(lambda tx: _transcript(tx, id)) or _transcript_missing(id)
    if not entries:
        raise ConfigError(
            f"{session.id} has no transcript: nothing was said in it, or it was deleted after transcript_days."
        )
    whole = json_lines(entries) if form == "jsonl" else heading(session) + markdown(entries)
    sys.stdout.write(whole.decode())


def _transcript(tx: Tx, id: str) -> tuple[Session, list[Entry]]:
    found = tx.sessions.find(id if id.startswith(PREFIX) else f"{PREFIX}{id}")
    exact = [one for one in found if one.id == id] or found
    if len(exact) > 1:
        raise ConfigError(f"{len(exact)} sessions begin with {id!r}. Give more of the id.")
    if not exact:
        return _transcript_missing(id)
    return exact[0], tx.transcripts.entries(exact[0].id, limit=MOST_ENTRIES)


def _transcript_missing(id: str) -> NoReturn:
    raise ConfigError(f"There is no session {id!r}. `pilothouse sessions` lists them.")


def _last_used(tx: Tx, limit: int) -> list[Session]:
    return sorted(tx.sessions.of(limit=MOST), key=lambda one: one.used_at, reverse=True)[:limit]


def _first_words(tx: Tx, session: Session) -> str:
    """Returns the session's first prompt; empty if it is no longer stored."""
    turn = tx.turns.first_of(session.conversation_id, session.id)
    return unframe(turn.prompt.text) if turn is not None else ""


def _row(session: Session, words: str, now: float) -> tuple[object, ...]:
    used = ago(now - session.used_at)
    return (
        session.id,
        session.engine,
        session.turns,
        money(session.cost_usd),
        f"{used} (retired)" if session.retired else used,
        session.conversation_id,
        session.workspace,
        words,
    )
