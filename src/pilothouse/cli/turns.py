"""`pilothouse turns`: lists the turns."""

from __future__ import annotations

import time

import click
import msgspec

from pilothouse.cli.options import json_option, limit_option
from pilothouse.cli.store import NOTHING_YET, read_store
from pilothouse.cli.table import ago, money, print_json, print_table
from pilothouse.core.ids import ConversationId
from pilothouse.core.turn import TURN_STATUSES, Turn, TurnStatus
from pilothouse.runtime.turns.prompt import unframe

HEADS = ("TURN", "STATUS", "ENGINE", "AGO", "TOOK", "COST", "PROMPT")


@click.command("turns")
@limit_option
@click.option("--status", multiple=True, type=click.Choice(TURN_STATUSES), help="Only turns in this state.")
@click.option("--conversation", help="Only turns of this conversation.")
@json_option
def command(limit: int, status: tuple[TurnStatus, ...], conversation: str | None, as_json: bool) -> None:
    """List the turns, newest first. `pilothouse trace TURN` shows one in detail."""
    place = ConversationId(conversation) if conversation else None
    found = read_store(lambda tx: tx.turns.of(place, statuses=status, limit=limit)) or []
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    empty = "No matching turns." if status or conversation else NOTHING_YET
    print_table(HEADS, [_row(turn, time.time()) for turn in found], empty, optional=("TOOK", "COST"))


def _row(turn: Turn, now: float) -> tuple[object, ...]:
    end = turn.ended_at or now
    status = f"{turn.status}: {turn.failure.kind}" if turn.failure else turn.status
    return (
        turn.id,
        status,
        turn.engine,
        ago(now - turn.created_at),
        "-" if turn.started_at is None else f"{end - turn.started_at:.1f}s",
        money(turn.usage.cost_usd if turn.usage else None),
        unframe(turn.prompt.text),
    )
