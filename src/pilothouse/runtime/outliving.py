"""An ask that outlived its turn: what was accepted before that turn was lost waits behind it, until somebody goes on.

What does not go on (`InboundMessage.goes_on`), such as a schedule's task, an engine's wake or a question in passing, begins
past the ask, and leaves it and the rest as they are. The store offers a conversation by the same rule (`startable`): if
anything may begin here. `tests/runtime/test_outliving.py` holds the two together.
"""

from __future__ import annotations

import math

import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import SessionId
from pilothouse.core.message import InboundMessage
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn

_decode = msgspec.json.Decoder(InboundMessage).decode


def past_ask(
    tx: Tx, conversation: Conversation, *, ready_by: float = math.inf, limit: int = 100
) -> list[QueueRow]:
    """Those that may begin, oldest first, of what waits in a conversation."""
    lost_at = _lost_at(tx, conversation.session_id)
    newer = tx.inbox.waiting(conversation.id, since=lost_at, ready_by=ready_by, limit=limit)
    if lost_at and any(_goes_on(row) for row in newer):
        return tx.inbox.waiting(conversation.id, ready_by=ready_by, limit=limit)
    return newer


def passes_ask(tx: Tx, turn: Turn) -> bool:
    """Such a running turn takes no words in: whoever goes on does so in a turn of their own, which closes the ask."""
    return _lost_at(tx, turn.session_id) > 0


def may_join(tx: Tx, turn: Turn) -> list[QueueRow]:
    """What waits and may go into a running turn: only what came after its own message. What waited before that was
    passed by it, maybe for an ask that is settled by now."""
    if passes_ask(tx, turn):
        return []
    own = [row.seq for row in tx.inbox.of_turn(turn.id) if row.lane == turn.conversation_id]
    return [row for row in tx.inbox.waiting(turn.conversation_id) if row.seq > min(own, default=0)]


def _lost_at(tx: Tx, session_id: SessionId | None) -> float:
    """When the last turn of a session ended whose ask is open still; 0 if there is none."""
    session = tx.sessions.get(session_id) if session_id else None
    if session is None or session.retired:
        return 0.0
    turns = [tx.turns.get(row.turn_id) for row in tx.asks.open_of(session.id)]
    return max((turn.ended_at or 0.0 for turn in turns if turn is not None), default=0.0)


def _goes_on(row: QueueRow) -> bool:
    try:
        return _decode(row.body).goes_on
    except ValueError:  # it cannot be read, so it says nothing: whoever starts it sets it aside
        return False
