"""Messages whose files are still being fetched. `/stop` withdraws them, and messages sent before it that arrive later.

Only memory holds them, because their channel keeps them. A withdrawn one gets a withdrawn row under its own key: when it
arrives after all, or again after a restart, it is a repeat and starts nothing. Messages behind it are known only to their
channel; the time of the stop is stored as a fact, and they are compared with it when they arrive.
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


class Fetches:
    def __init__(self) -> None:
        self._fetches: dict[anyio.CancelScope, InboundMessage] = {}

    @contextmanager
    def expecting(self, message: InboundMessage) -> Iterator[None]:
        """Announce the message. The body of the `with` is cancelled once the message was withdrawn."""
        with anyio.CancelScope() as scope:
            self._fetches[scope] = message
            try:
                yield
            finally:
                del self._fetches[scope]

    def messages(self) -> tuple[InboundMessage, ...]:
        return tuple(self._fetches.values())

    async def cancel_withdrawn(self, store: Store) -> None:
        """Cancel the fetches of messages that were withdrawn."""
        fetches = list(self._fetches.items())

        def unit(tx: Tx) -> list[anyio.CancelScope]:
            return [scope for scope, message in fetches if _is_withdrawn(tx, message)]

        for scope in await store.read(unit) if fetches else ():
            scope.cancel()


def _is_withdrawn(tx: Tx, message: InboundMessage) -> bool:
    """Tell whether all pieces were withdrawn: if only the first was, the rest is still to come."""
    row = head_of(tx, message.address, message.native_id)
    return row is not None and row.status == "withdrawn" and without_known(tx, message) is None


def is_stopped(tx: Tx, place: ConversationId, message: InboundMessage) -> bool:
    """Tell whether a chat message was sent before the last stop. Both times are the platform's; equal ones do not count,
    because platforms count in seconds."""
    stopped_at = tx.get_fact(STOPPED.of(place))
    return bool(stopped_at) and message.kind == "chat" and 0 < message.sent_at < float(stopped_at)
