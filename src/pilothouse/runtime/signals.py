"""Wake-ups inside one process: hints that spare a poll, never the guarantee.

Whoever changes something pokes its topic; whoever waits looks at the store again. A poke between the look and the
wait is not lost: a waiter first takes a ticket, then looks, then waits for that ticket.
"""

from __future__ import annotations

import anyio

from pilothouse.core.ids import ConversationId, TurnId

INBOX = "inbox"
OUTBOX = "outbox"
ASKS = "asks"
PLACES = "places"
"""What is chosen for some place may have changed."""
TURNS = "turns"
"""A turn began: for those who show what runs."""


def control_of(conversation_id: ConversationId) -> str:
    """Somebody said, stopped or answered something there: for the turn that runs there."""
    return f"control:{conversation_id}"


def end_of(turn_id: TurnId) -> str:
    """The turn ended, one way or another."""
    return f"end:{turn_id}"


def events_of(conversation_id: ConversationId) -> str:
    """The event log of the conversation grew: for those who follow it."""
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
