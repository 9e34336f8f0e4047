"""The event log: append-only, numbered without gaps within its conversation and within its turn."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.channel import LoggedEvent
from pilothouse.core.event import SCHEMA_VERSION, EngineEvent, decode_event, encode_event
from pilothouse.core.ids import ConversationId, TurnId
from pilothouse.stores.sqlite.blobs import note_uses
from pilothouse.stores.sqlite.link import Link, Row


def logged_event(row: Row) -> LoggedEvent:
    seq, turn_id, at, body, schema = row
    return LoggedEvent(seq, turn_id, at, decode_event(body, schema))


class EventTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def append(
        self, conversation_id: ConversationId, turn_id: TurnId, events: Sequence[EngineEvent], at: float
    ) -> int:
        if not events:
            return self.last_seq(conversation_id)
        given = self._link.row("events.give", conversation_id=conversation_id, count=len(events))
        before = self._link.row("events.last_of_turn", turn_id=turn_id)
        assert given is not None and before is not None, "both always give a row"
        last: int = given[0]
        bodies = [encode_event(event) for event in events]
        self._link.run_many(
            "events.add",
            [
                {
                    "conversation_id": conversation_id,
                    "seq": last - len(events) + place,
                    "turn_id": turn_id,
                    "turn_seq": before[0] + place,
                    "at": at,
                    "schema": SCHEMA_VERSION,
                    "body": body,
                }
                for place, body in enumerate(bodies, start=1)
            ],
        )
        for body in bodies:
            note_uses(self._link, "turn", turn_id, body)
        return last

    def after(self, conversation_id: ConversationId, seq: int, *, limit: int = 500) -> list[LoggedEvent]:
        rows = self._link.rows("events.after", conversation_id=conversation_id, seq=seq, limit=limit)
        return [logged_event(row) for row in rows]

    def last_seq(self, conversation_id: ConversationId) -> int:
        row = self._link.row("events.last_seq", conversation_id=conversation_id)
        return row[0] if row else 0

    def of_turn(self, turn_id: TurnId, *, limit: int = 100_000) -> list[LoggedEvent]:
        rows = self._link.rows("events.of_turn", turn_id=turn_id, limit=limit)
        return [logged_event(row) for row in rows]
