"""`pilothouse sessions`: lists the engines' sessions."""

from __future__ import annotations

import time

import click
import msgspec

from pilothouse.cli.options import json_option, limit_option
from pilothouse.cli.store import NOTHING_YET, read_store
from pilothouse.cli.table import ago, money, print_json, print_table
from pilothouse.core.conversation import Session

HEADS = ("SESSION", "ENGINE", "TURNS", "COST", "USED", "CONVERSATION", "WORKSPACE")


@click.command("sessions")
@limit_option
@json_option
def command(limit: int, as_json: bool) -> None:
    """List the engines' sessions, newest first."""
    found = read_store(lambda tx: tx.sessions.of(limit=limit)) or []
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    print_table(
        HEADS,
        [_row(session, time.time()) for session in found],
        NOTHING_YET,
        optional=("TURNS", "COST", "CONVERSATION"),
    )


def _row(session: Session, now: float) -> tuple[object, ...]:
    used = ago(now - session.used_at)
    return (
        session.id,
        session.engine,
        session.turns,
        money(session.cost_usd),
        f"{used} (retired)" if session.retired else used,
        session.conversation_id,
        session.workspace,
    )
