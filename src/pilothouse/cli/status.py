"""`pilothouse status`: what runs, what waits, what went wrong last."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import click
import msgspec
from msgspec import Struct

from pilothouse.cli.house import NOTHING_YET, load_plain, read_store
from pilothouse.cli.options import json_option
from pilothouse.cli.table import ago, plain, print_json, render_table
from pilothouse.core.ask_rows import AskRow
from pilothouse.core.health import Noted, health_of
from pilothouse.core.ids import ChannelId
from pilothouse.core.node import Node
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.framing import unframe
from pilothouse.runtime.serving import served_channels

MAX_CONVERSATIONS = 1000
CHANNELS = "CHANNELS"
ERRORS = "LAST ERRORS"


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
    channels: dict[str, Noted] = {}


def look(tx: Tx, channels: Iterable[str] = ()) -> Status:
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
            if (noted := health_of(tx, ChannelId(id)))
        },
    )


@click.command("status")
@json_option
def command(as_json: bool) -> None:
    """What runs, what waits, what went wrong."""
    enabled = [id for id, row in load_plain().config.channels.items() if row.enabled]
    status = read_store(partial(look, channels=enabled))
    if as_json:
        print_json(msgspec.to_builtins(status or Status([], [], [], [], [])))
    elif status is None:
        print(NOTHING_YET)
    else:
        print(render_status(status, time.time()))


def render_status(status: Status, now: float) -> str:
    parts = [
        _part("NODES", ("NODE", "ROLES", "PID", "LEASE"), [_node(node, now) for node in status.nodes]),
        _part(
            CHANNELS,
            ("CHANNEL", "HEARD", "TROUBLE"),
            [_channel(id, noted, now) for id, noted in status.channels.items()],
        ),
        _part("TURNS", ("TURN", "STATUS", "ENGINE", "AGO", "PROMPT"), [_turn(t, now) for t in status.turns]),
        _part(
            "WAITING",
            ("CONVERSATION", "IN", "OUT"),
            [(q.conversation, q.inbox, q.outbox) for q in status.queues],
        ),
        _part("ASKS", ("ASK", "KIND", "AGO", "TITLE"), [_ask(row, now) for row in status.asks]),
        _part(ERRORS, ("TURN", "AGO", "WHY"), [_failure(turn, now) for turn in status.failures]),
    ]
    return "\n\n".join(part for part in parts if part) or "all quiet: nothing runs, nothing waits"


def _part(title: str, heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    return f"{title}\n{render_table(heads, rows, wrap=title in (CHANNELS, ERRORS))}" if rows else ""


def _node(node: Node, now: float) -> tuple[Any, ...]:
    left = node.lease_until - now
    lease = f"{left:.0f}s left" if left >= 0 else f"ran out {ago(-left)} ago"
    return (f"{node.info.name}@{node.info.host}", ", ".join(node.roles) or "none", node.info.pid, lease)


def _channel(id: str, noted: Noted, now: float) -> tuple[Any, ...]:
    heard = f"{ago(now - noted.heard_at)} ago" if noted.heard_at else "never"
    return (id, heard, noted.trouble or "none")


def _turn(turn: Turn, now: float) -> tuple[Any, ...]:
    return (
        turn.id,
        turn.status,
        turn.engine,
        ago(now - turn.created_at),
        plain(unframe(turn.prompt.text))[:80],
    )


def _ask(row: AskRow, now: float) -> tuple[Any, ...]:
    return (row.ask.id, row.ask.kind, ago(now - row.asked_at), row.ask.title)


def _failure(turn: Turn, now: float) -> tuple[Any, ...]:
    why = f"{turn.failure.kind}: {turn.failure.text}" if turn.failure else "no reason was kept"
    return (turn.id, ago(now - (turn.ended_at or turn.created_at)), why)
