"""`pilothouse status`: shows whether the gateway runs, which channels are connected, what waits, and the last failures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.machine import is_alive
from pilothouse.bootstrap.terminal_text import as_typed, columns_of, fit
from pilothouse.cli.options import json_option
from pilothouse.cli.store import load_plain, read_store
from pilothouse.cli.table import ago, plain, print_json, render_table
from pilothouse.config import ALWAYS_ON
from pilothouse.core.ask import AskRow
from pilothouse.core.ask_view import whole_headline
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.store import Node, Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.channel_status import HealthNote, Removal, health_now, removal_from, served_channels
from pilothouse.runtime.turns.prompt import unframe

MAX_CONVERSATIONS = 1000
ASKS = "WAITS FOR YOU"
ERRORS = "LAST ERRORS"
GONE = "REMOVED THE BOT"
NOT_RUNNING = "not running → pilothouse up"
ONLY_CHAT = "not connected: only a chat runs; close it and start pilothouse up"


class Queued(Struct, frozen=True):
    """`inbox` and `outbox` count unfinished rows; `waiting` leaves out the messages of a turn that runs."""

    conversation: str
    inbox: int
    outbox: int
    waiting: int = 0


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
    queues = [_look_at_queue(tx, place.id) for place in conversations]
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


def _look_at_queue(tx: Tx, place: ConversationId) -> Queued:
    inbox, outbox = tx.inbox.unfinished(place), tx.outbox.unfinished(place)
    waiting = [row for row in inbox if row.turn_id is None]
    return Queued(place, len(inbox), len(outbox), len(waiting) + len(outbox))


@click.command("status")
@click.option(
    "--verbose", is_flag=True, help="Also list the processes that share the store, and every queue."
)
@json_option
def command(verbose: bool, as_json: bool) -> None:
    """Show whether the gateway runs, which channels are connected, and what waits for you."""
    enabled = [id for id, row in load_plain().config.channels.items() if row.enabled and id != ALWAYS_ON]
    now = time.time()
    status = read_store(partial(look, now=now, channels=enabled)) or Status([], [], [], [], [])
    if as_json:
        print_json({"running": gateway_of(status, now) is not None, **msgspec.to_builtins(status)})
    else:
        print(render_status(status, now, columns_of(sys.stdout), enabled=enabled, verbose=verbose))


def gateway_of(status: Status, now: float) -> Node | None:
    return find_gateway(status.nodes, now)


def find_gateway(nodes: Iterable[Node], now: float) -> Node | None:
    """Returns the node that runs turns, if it is alive: on this machine its process is looked for."""
    return next((node for node in nodes if "engines" in node.roles and _is_alive(node, now)), None)


def serves_configured(gateway: Node) -> bool:
    """Returns false for a chat or another client that took over from a gateway that died."""
    return "channels" in gateway.roles


def _is_alive(node: Node, now: float) -> bool:
    return node.lease_until > now and is_alive(node.info) is not False


def render_status(
    status: Status,
    now: float,
    columns: int | None = None,
    *,
    enabled: Sequence[str] = (),
    verbose: bool = False,
) -> str:
    part = partial(_part, columns)
    waiting = [queue for queue in status.queues if queue.waiting or verbose]
    parts = [
        _summary(status, now, columns, enabled),
        part(ASKS, ("ASK", "KIND", "ASKED", "WHAT"), [_ask(row, now) for row in status.asks]),
        part("TURNS", ("TURN", "STATUS", "ENGINE", "AGO", "PROMPT"), [_turn(t, now) for t in status.turns]),
        part("QUEUED MESSAGES", ("CONVERSATION", "WAITING", "IN", "OUT"), [_queue(q) for q in waiting]),
        part(GONE, ("CONVERSATION", "AGO", "WHY"), [_gone(id, it, now) for id, it in status.gone.items()]),
        part(ERRORS, ("TURN", "AGO", "WHY"), [_failure(turn, now) for turn in status.failures]),
    ]
    if verbose:
        heads = ("NODE", "ROLES", "PID", "LEASE")
        parts.append(part("NODES", heads, [_node(node, now) for node in status.nodes]))
    return "\n\n".join(filter(None, parts))


def _summary(status: Status, now: float, columns: int | None, enabled: Sequence[str]) -> str:
    """Renders one line each for the gateway, its channels, and what waits for a person."""
    gateway = gateway_of(status, now)
    lines = [
        ("gateway", f"running ({gateway.info.name}, pid {gateway.info.pid})" if gateway else NOT_RUNNING)
    ]
    lines += [
        (id, _connection(gateway, status.channels.get(id), now))
        for id in dict.fromkeys((*enabled, *status.channels))
    ]
    count = len(status.asks)
    lines.append(
        (
            "asks",
            f"{count} {'waits' if count == 1 else 'wait'} for you: pilothouse asks" if count else "none open",
        )
    )
    room = max(len(name) for name, _ in lines)
    texts = (fit(f"{' ' * (room + 2)}{as_typed(plain(text))}", columns) for _, text in lines)
    return "\n".join(f"{name:<{room}}  {text.lstrip()}" for (name, _), text in zip(lines, texts, strict=True))


def _connection(gateway: Node | None, noted: HealthNote | None, now: float) -> str:
    if gateway is None:
        return "not connected"
    if not serves_configured(gateway):
        return ONLY_CHAT
    if noted is None:
        return "connecting"
    heard = f"heard {ago(now - noted.heard_at)} ago" if noted.heard_at else ""
    if noted.trouble:
        return f"in trouble: {noted.trouble}{f' (last {heard})' if heard else ''}"
    return f"connected, {heard}" if heard else "connected"


def _part(columns: int | None, title: str, heads: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    table = render_table(heads, rows, columns, wrap=title in (ASKS, GONE, ERRORS))
    return f"{title}\n{table}" if rows else ""


def _node(node: Node, now: float) -> tuple[Any, ...]:
    left = node.lease_until - now
    lease = f"{left:.0f}s left" if left >= 0 else f"ran out {ago(-left)} ago"
    return (f"{node.info.name}@{node.info.host}", ", ".join(node.roles) or "none", node.info.pid, lease)


def _queue(queue: Queued) -> tuple[Any, ...]:
    return (queue.conversation, queue.waiting, queue.inbox, queue.outbox)


def _turn(turn: Turn, now: float) -> tuple[Any, ...]:
    return (
        turn.id,
        turn.status,
        turn.engine,
        ago(now - turn.created_at),
        unframe(turn.prompt.text),
    )


def _ask(row: AskRow, now: float) -> tuple[Any, ...]:
    return (row.ask.id, row.subject, ago(now - row.asked_at), whole_headline(row.ask))


def _gone(id: str, gone: Removal, now: float) -> tuple[Any, ...]:
    return (id, ago(now - gone.at), gone.why)


def _failure(turn: Turn, now: float) -> tuple[Any, ...]:
    why = f"{turn.failure.kind}: {turn.failure.text}" if turn.failure else "no reason was kept"
    return (turn.id, ago(now - (turn.ended_at or turn.created_at)), why)
