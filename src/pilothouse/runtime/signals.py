"""Wake-ups inside one process: hints that save a poll, never a guarantee.

A writer pokes the topic that it changed, and a waiter reads the store again. To miss no poke, a waiter first takes a
ticket, then reads, then waits for the ticket.
"""

from __future__ import annotations

import anyio

from pilothouse.core.ids import ConversationId, TurnId

INBOX = "inbox"
OUTBOX = "outbox"
ASKS = "asks"
PLACES = "places"
"""The settings of some place may have changed."""
TURNS = "turns"
"""A turn began: for live views and typing indicators."""


def control_of(conversation_id: ConversationId) -> str:
    """A message, a stop or an answer in the conversation: for its running turn."""
    return f"control:{conversation_id}"


def end_of(turn_id: TurnId) -> str:
    """The turn ended in any way."""
    return f"end:{turn_id}"


def events_of(conversation_id: ConversationId) -> str:
    """The conversation's event log grew: for its followers."""
    return f"events:{conversation_id}"


class Signals:
    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def ticket(self, topic: str) -> anyio.Event:
        event = self._events.get(topic)
        if event is None:
            event = self._events[topic] = anyio.Event()
        return event

    def poke(self, *topics: str) -> None:
        for topic in topics:
            event = self._events.pop(topic, None)
            if event is not None:
                event.set()

    def poke_all(self) -> None:
        self.poke(*list(self._events))

    @staticmethod
    async def wait(ticket: anyio.Event, timeout_s: float) -> None:
        with anyio.move_on_after(timeout_s):
            await ticket.wait()
