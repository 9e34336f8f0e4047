"""Turns and their events. Every move of a turn is checked by the table in core, and law 2 by a unique index.

The event log is append-only, and numbered without gaps within its conversation and within its turn.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.core.channel import LoggedEvent
from pilothouse.core.errors import Fenced, SessionBusy, StoreError
from pilothouse.core.event import SCHEMA_VERSION, EngineEvent, decode_event, encode_event
from pilothouse.core.ids import ConversationId, Epoch, SessionId, TurnId
from pilothouse.core.outcome import Failure, Usage
from pilothouse.core.turn import ENDED, LIVE, Prompt, Turn, TurnStatus, move_turn
from pilothouse.stores.sqlite.blobs import note_uses
from pilothouse.stores.sqlite.link import Link, Row, to_json

_decode_prompt = msgspec.json.Decoder(Prompt).decode
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_usage = msgspec.json.Decoder(Usage).decode

_FIXED = frozenset({"id", "status"})
AFTER_ANY = "\U0010ffff"
"""Sorts after every other character: ids with the prefix `p` lie between `p` and `p` + this."""


def turn_of(row: Row) -> Turn:
    fields: list[Any] = [*row]
    fields[6] = _decode_prompt(row[6])
    fields[9], fields[10] = bool(row[9]), bool(row[10])
    if row[16] is not None:
        fields[16] = _decode_failure(row[16])
    if row[17] is not None:
        fields[17] = _decode_usage(row[17])
    return Turn(*fields)


class TurnTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def add(self, turn: Turn) -> None:
        if turn.status in LIVE and turn.epoch is None:
            turn = msgspec.structs.replace(turn, epoch=self._link.own_epoch("run a turn"))
        self._store("turns.add", turn)

    def get(self, id: TurnId) -> Turn | None:
        turn: Turn | None = self._link.seen.get(("turns", id))
        if turn is None and (row := self._link.row("turns.get", id=id)):
            turn = self._link.seen["turns", id] = turn_of(row)
        return turn

    def find(self, prefix: str) -> list[Turn]:
        return self._all("find", first=prefix, last=prefix + AFTER_ANY)

    def move(self, id: TurnId, to: TurnStatus, **changes: Any) -> Turn:
        turn = self._known(id)
        self._check_owner(turn)
        status = move_turn(turn.status, to)
        if status == "running":
            changes.setdefault("epoch", self._link.own_epoch("run a turn"))
        return self._change(turn, status, changes)

    def note(self, id: TurnId, **changes: Any) -> Turn:
        turn = self._known(id)
        return self._change(turn, turn.status, changes)

    def live(self, session_id: SessionId) -> Turn | None:
        row = self._link.row("turns.live", session_id=session_id)
        return turn_of(row) if row else None

    def live_in(self, conversation_id: ConversationId) -> Turn | None:
        row = self._link.row("turns.live_in", conversation_id=conversation_id)
        return turn_of(row) if row else None

    def of(
        self,
        conversation_id: ConversationId | None = None,
        *,
        statuses: Sequence[TurnStatus] = (),
        limit: int = 100,
    ) -> list[Turn]:
        wanted = to_json(list(statuses)).decode() if statuses else None
        name = "newest" if conversation_id is None else "of"
        if statuses and not ENDED.intersection(statuses):
            name += "_unended"
        return self._all(name, conversation_id=conversation_id, statuses=wanted, limit=limit)

    def first_of(self, conversation_id: ConversationId, session_id: SessionId) -> Turn | None:
        row = self._link.row("turns.first_of", conversation_id=conversation_id, session_id=session_id)
        return turn_of(row) if row else None

    def startable(self, *, limit: int) -> list[Turn]:
        return self._all("startable", limit=limit)

    def parked_due(self, now: float) -> list[Turn]:
        return self._all("parked_due", now=now)

    def next_parked_at(self) -> float | None:
        row = self._link.row("turns.next_parked_at")
        return row[0] if row else None

    def held_by(self, epoch: Epoch) -> list[Turn]:
        return self._all("held_by", epoch=epoch)

    def _all(self, name: str, **values: Any) -> list[Turn]:
        return [turn_of(row) for row in self._link.rows(f"turns.{name}", **values)]

    def _known(self, id: TurnId) -> Turn:
        turn = self.get(id)
        if turn is None:
            raise StoreError(f"there is no turn {id}")
        return turn

    def _check_owner(self, turn: Turn) -> None:
        """Raise if another node that is not fenced runs this turn."""
        owner = turn.epoch
        if turn.status not in LIVE or owner == self._link.epoch:
            return
        if self._link.row("nodes.may_write", epoch=owner):
            raise Fenced(f"the turn {turn.id} belongs to node {owner}, which was not fenced")

    def _change(self, turn: Turn, status: TurnStatus, changes: dict[str, Any]) -> Turn:
        if fixed := _FIXED.intersection(changes):
            raise TypeError(f"{', '.join(sorted(fixed))} of a turn cannot be changed this way")
        changed = msgspec.structs.replace(turn, status=status, **changes)
        self._store("turns.save", changed)
        return changed

    def _store(self, name: str, turn: Turn) -> None:
        values = _values(turn)
        try:
            self._link.run(name, **values)
        except sqlite3.IntegrityError as error:
            raise self._refused(error, turn) from error
        self._link.seen["turns", turn.id] = turn
        note_uses(self._link, "turn", turn.id, values["prompt"])

    def _refused(self, error: sqlite3.IntegrityError, turn: Turn) -> StoreError:
        if turn.status in LIVE and "turns.session_id" in str(error):
            return SessionBusy(f"{turn.session_id} already has a live turn; {turn.id} must wait")
        return StoreError(f"the turn {turn.id} cannot be stored: {error}")


def _values(turn: Turn) -> dict[str, Any]:
    values = msgspec.structs.asdict(turn)
    values["prompt"] = to_json(turn.prompt)
    values["failure"] = None if turn.failure is None else to_json(turn.failure)
    values["usage"] = None if turn.usage is None else to_json(turn.usage)
    return values


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
