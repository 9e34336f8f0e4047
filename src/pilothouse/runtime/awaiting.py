"""What a message still waits for: all that came of it and was not sent yet.

Whoever is here for some messages only is handed what came of these, and what the house says to nobody in particular.
The answers of others are left for them, and hold nothing up.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx

_REPLY = "reply:"


def reply_key(message: MessageId) -> str:
    """The key of what a command was told."""
    return f"{_REPLY}{message}"


def unsent_of(tx: Tx, row: QueueRow) -> list[QueueRow]:
    """Of what was said in the message's own conversation, oldest first."""
    found = tx.outbox.of_turn(row.turn_id) if row.turn_id else [tx.outbox.by_key(reply_key(row.id))]
    here = [out for out in found if out is not None and out.conversation_id == row.conversation_id]
    return [out for out in here if out.ended_at is None]


def next_for(
    tx: Tx, places: Sequence[ConversationId], messages: Sequence[MessageId], now: float
) -> list[QueueRow]:
    """The first unfinished row of each place that is for whoever sent these messages, if it may go now."""
    sent = [row for row in map(tx.inbox.get, messages) if row is not None]
    heads: list[QueueRow] = []
    for place in places:
        own = [out for row in sent if row.conversation_id == place for out in unsent_of(tx, row)]
        to_nobody = tx.outbox.of_no_turn(place, but=_REPLY, limit=1)
        head = min([*own, *to_nobody], key=lambda out: out.seq, default=None)
        if head is not None and head.status == "queued" and head.ready_at <= now:
            heads.append(head)
    return heads
