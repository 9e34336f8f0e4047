"""Messages whose files are still being fetched: `/stop` knows of them, and takes back what would begin, with what was
said behind them.

They are in memory alone, for their channel keeps them. One that was taken back has a row, withdrawn, under its own key:
when it comes after all, or once more after a restart, it is a repeat and begins nothing. What waits behind it only its
channel knows: that comes to us after the stop, and tells by its time that it was said before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from pilothouse.core.facts import STOPPED
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import InboundMessage
from pilothouse.core.store import Store, Tx
from pilothouse.runtime.conversations.pieces import head_of, without_known


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
    stopped_at = tx.get_fact(STOPPED.of(place))
    return bool(stopped_at) and message.kind == "chat" and 0 < message.sent_at < float(stopped_at)
