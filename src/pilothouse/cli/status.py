"""`pilothouse status`: shows what runs, what waits, and the last failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.terminal_text import columns_of
from pilothouse.cli.options import json_option
from pilothouse.cli.store import NOTHING_YET, load_plain, read_store
from pilothouse.cli.table import ago, print_json, render_table
from pilothouse.core.ask import AskRow
from pilothouse.core.channel_status import HealthNote, Removal, health_now, removal_from, served_channels
from pilothouse.core.ids import ChannelId
from pilothouse.core.store import Node, Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.turns.prompt import unframe

MAX_CONVERSATIONS = 1000
CHANNELS = "CHANNELS"
ASKS = "ASKS"
ERRORS = "LAST ERRORS"
GONE = "REMOVED US"


class Queued(Struct, frozen=True):
    conversation: str
    inbox: int
    outbox: int


class Status(Struct, frozen=True):
    nodes: list[Node]
    turns: list[Turn]
    queues: list[Queued]
    asks: list[AskRow]
    failures: list[Turn]
    channels: dict[str, HealthNote] = {}
    gone: dict[str, Removal] = {}
    """Conversations that removed the bot."""


def look(tx: Tx, now: float, channels: Iterable[str] = ()) -> Status:
    conversations = tx.conversations.list(limit=MAX_CONVERSATIONS)
    queues = [
        Queued(place.id, len(tx.inbox.unfinished(place.id)), len(tx.outbox.unfinished(place.id)))
        for place in conversations
    ]
    return Status(
        nodes=tx.nodes.list(),
        turns=tx.turns.of(statuses=("running", "waiting", "parked", "queued", "lost"), limit=50),
        queues=[queue for queue in queues if queue.inbox or queue.outbox],
        asks=[ask for place in conversations for ask in tx.asks.open_in(place.id)],
        failures=tx.turns.of(statuses=("failed",), limit=3),
        channels={
            id: noted
            for id in dict.fromkeys((*channels, *served_channels(tx)))
            if (noted := health_now(tx, ChannelId(id), now))
        },
        gone={place.id: gone for place in conversations if (gone := removal_from(tx, place.id))},
    )


@click.command("status")
@json_option
def command(as_json: bool) -> None:
    """Show what runs, what waits, what failed."""
    enabled = [id for id, row in load_plain().config.channels.items() if row.enabled]
    now = time.time()
    status = read_store(partial(look, now=now, channels=enabled))
    if as_json:
        print_json(msgspec.to_builtins(status or Status([], [], [], [], [])))
    elif status is None:
        print(NOTHING_YET)
    else:
        print(render_status(status, now, columns_of(sys.stdout)))


def render_status(status: Status, now: float, columns: int | None = None) -> str:
    part = partial(_part, columns)
    parts = [
        part("NODES", ("NODE", "ROLES", "PID", "LEASE"), [_node(node, now) for node in status.nodes]),
        part(
            CHANNELS,
            ("CHANNEL", "HEARD", "TROUBLE"),
            [_channel(id, noted, now) for id, noted in status.channels.items()],
        ),
        part("TURNS", ("TURN", "STATUS", "ENGINE", "AGO", "PROMPT"), [_turn(t, now) for t in status.turns]),
        part(
            "WAITING",
            ("CONVERSATION", "IN", "OUT"),
            [(q.conversation, q.inbox, q.outbox) for q in status.queues],
        ),
        part(ASKS, ("ASK", "KIND", "AGO", "TITLE"), [_ask(row, now) for row in status.asks]),
        part(GONE, ("CONVERSATION", "AGO", "WHY"), [_gone(id, it, now) for id, it in status.gone.items()]),
        part(ERRORS, ("TURN", "AGO", "WHY"), [_failure(turn, now) for turn in status.failures]),
    ]
    return "\n\n".join(filter(None, parts)) or "all quiet: nothing runs, nothing waits"


def _part(columns: int | None, title: str, heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    table = render_table(heads, rows, columns, wrap=title in (CHANNELS, ASKS, GONE, ERRORS))
    return f"{title}\n{table}" if rows else ""


def _node(node: Node, now: float) -> tuple[Any, ...]:
    left = node.lease_until - now
    lease = f"{left:.0f}s left" if left >= 0 else f"ran out {ago(-left)} ago"
    return (f"{node.info.name}@{node.info.host}", ", ".join(node.roles) or "none", node.info.pid, lease)


def _channel(id: str, noted: HealthNote, now: float) -> tuple[Any, ...]:
    heard = f"{ago(now - noted.heard_at)} ago" if noted.heard_at else "never"
    return (id, heard, noted.trouble or "none")


def _turn(turn: Turn, now: float) -> tuple[Any, ...]:
    return (
        turn.id,
        turn.status,
        turn.engine,
        ago(now - turn.created_at),
        unframe(turn.prompt.text),
    )


def _ask(row: AskRow, now: float) -> tuple[Any, ...]:
    return (row.ask.id, row.subject, ago(now - row.asked_at), row.ask.title)


def _gone(id: str, gone: Removal, now: float) -> tuple[Any, ...]:
    return (id, ago(now - gone.at), gone.why)


def _failure(turn: Turn, now: float) -> tuple[Any, ...]:
    why = f"{turn.failure.kind}: {turn.failure.text}" if turn.failure else "no reason was kept"
    return (turn.id, ago(now - (turn.ended_at or turn.created_at)), why)
