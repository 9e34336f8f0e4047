"""An ask that outlived its turn: what was said before that turn was lost waits behind it, until somebody goes on.

Whoever asks something in passing, which is a turn by itself, does not go on: that begins, and the rest waits on. The store
offers a conversation by the same rule (`startable`).
"""

from __future__ import annotations

import math

import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.message import InboundMessage
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx

_decode = msgspec.json.Decoder(InboundMessage).decode


def past_ask(
    tx: Tx, conversation: Conversation, *, ready_by: float = math.inf, limit: int = 100
) -> list[QueueRow]:
    """Those that may begin, oldest first, of what waits in a conversation."""
    lost_at = _lost_at(tx, conversation)
    newer = tx.inbox.waiting(conversation.id, since=lost_at, ready_by=ready_by, limit=limit)
    if not lost_at or (newer and all(_is_alone(row) for row in newer)):
        return newer
    return tx.inbox.waiting(conversation.id, ready_by=ready_by, limit=limit)


def _lost_at(tx: Tx, conversation: Conversation) -> float:
    """When a turn of the session ended whose ask is open still."""
    session = tx.sessions.get(conversation.session_id) if conversation.session_id else None
    if session is None or session.retired:
        return 0.0
    turns = [tx.turns.get(row.turn_id) for row in tx.asks.open_of(session.id) if row.turn_id is not None]
    return max((turn.ended_at or 0.0 for turn in turns if turn is not None), default=0.0)


def _is_alone(row: QueueRow) -> bool:
    try:
        return _decode(row.body).alone
    except msgspec.MsgspecError:  # whoever starts it sets it aside
        return False
