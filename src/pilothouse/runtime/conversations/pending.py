"""Messages whose files are still being fetched: `/stop` knows of them, and takes back what would begin, with what was
said behind them.

They are in memory alone, for their channel keeps them. One that was taken back has a row, withdrawn, under its own key:
when it comes after all, or once more after a restart, it is a repeat and begins nothing. What waits behind it only its
channel knows: that comes to us after the stop, and tells by its time that it was said before.

An ask that outlived its turn: what was accepted before that turn was lost waits behind it, until somebody goes on.

What does not go on (`InboundMessage.goes_on`), such as a schedule's task, an engine's wake or a question in passing, begins
past the ask, and leaves it and the rest as they are. The store offers a conversation by the same rule (`startable`): if
anything may begin here. `tests/runtime/test_outliving.py` holds the two together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, SessionId
from pilothouse.core.message import InboundMessage
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Store, Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.conversations.pieces import head_of, without_known

_decode = msgspec.json.Decoder(InboundMessage).decode


class Expected:
    def __init__(self) -> None:
        self._fetches: dict[anyio.CancelScope, InboundMessage] = {}

    @contextmanager
    def expecting(self, message: InboundMessage) -> Iterator[None]:
        """What is done within is left where it is once the message was taken back."""
        with anyio.CancelScope() as scope:
            self._fetches[scope] = message
            try:
                yield
            finally:
                del self._fetches[scope]

    def messages(self) -> tuple[InboundMessage, ...]:
        return tuple(self._fetches.values())

    async def leave_stopped(self, store: Store) -> None:
        """Nobody waits any longer for the files of what was taken back."""
        fetches = list(self._fetches.items())

        def unit(tx: Tx) -> list[anyio.CancelScope]:
            return [scope for scope, message in fetches if _is_taken_back(tx, message)]

        for scope in await store.read(unit) if fetches else ():
            scope.cancel()


def _is_taken_back(tx: Tx, message: InboundMessage) -> bool:
    """All of it: of one whose first piece was withdrawn before, the rest is still to come."""
    row = head_of(tx, message.address, message.native_id)
    return row is not None and row.status == "withdrawn" and without_known(tx, message) is None


def is_stopped(tx: Tx, place: ConversationId, message: InboundMessage) -> bool:
    """Both times are the platform's. Where they are the same, as two within one second may be, it begins."""
    stopped_at = tx.get_fact(stop_key(place))
    return bool(stopped_at) and message.kind == "chat" and 0 < message.sent_at < float(stopped_at)


def stop_key(place: ConversationId) -> str:
    return f"stopped:{place}"


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
