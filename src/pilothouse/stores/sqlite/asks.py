"""Asks (law 6): stored before they are shown; every move is checked by the table in core."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import msgspec

from pilothouse.core.ask import Ask, AskRow, AskState, Decision, move_ask
from pilothouse.core.call import Call
from pilothouse.core.errors import StoreError
from pilothouse.core.ids import AskId, ConversationId, SessionId, TurnId
from pilothouse.core.people import Authority, Vote
from pilothouse.stores.sqlite.link import Link, Row, to_json
from pilothouse.stores.sqlite.turns import AFTER_ANY

_decode_ask = msgspec.json.Decoder(Ask).decode
_decode_call = msgspec.json.Decoder(Call).decode
_decode_decision = msgspec.json.Decoder(Decision).decode
_decode_authority = msgspec.json.Decoder(Authority).decode
_decode_votes = msgspec.json.Decoder(tuple[Vote, ...]).decode
_decode_places = msgspec.json.Decoder(tuple[ConversationId, ...]).decode
_DEFAULT_AUTHORITY = Authority()
"""For asks stored before authority was recorded: an admin answers."""


def ask_row(row: Row) -> AskRow:
    ask = _decode_ask(row[0])
    if ask.expires_at != row[1]:
        ask = msgspec.structs.replace(ask, expires_at=row[1])
    if row[16]:
        ask = msgspec.structs.replace(ask, call=_decode_call(row[16]))
    decision = None if row[8] is None else _decode_decision(row[8])
    authority = _authority(row[11])
    votes = () if row[12] is None else _decode_votes(row[12])
    places = () if row[13] is None else _decode_places(row[13])
    fields: list[Any] = [
        ask,
        *row[2:8],
        decision,
        row[9],
        bool(row[10]),
        authority,
        votes,
        places,
        *row[14:16],
    ]
    return AskRow(*fields)


class AskTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def add(self, row: AskRow) -> None:
        ended_at = None if row.state == "open" else row.answered_at or row.asked_at
        try:
            self._link.run(
                "asks.add",
                id=row.ask.id,
                conversation_id=row.conversation_id,
                session_id=row.session_id,
                turn_id=row.turn_id,
                engine_key=row.engine_key,
                state=row.state,
                asked_at=row.asked_at,
                expires_at=row.ask.expires_at,
                payload_hash=row.ask.payload_hash,
                ask=to_json(msgspec.structs.replace(row.ask, call=None)),
                decision=_decision(row.decision),
                answered_at=row.answered_at,
                ended_at=ended_at,
                used=row.used,
                authority=to_json(row.authority),
                votes=to_json(row.votes) if row.votes else None,
                shown_in=to_json(row.shown_in) if row.shown_in else None,
                topic=row.topic,
                about=row.about,
                kind=row.ask.kind,
                call="" if row.ask.call is None else to_json(row.ask.call).decode(),
            )
        except sqlite3.IntegrityError as error:
            raise StoreError(f"the ask {row.ask.id} cannot be stored: {error}") from error

    def get(self, id: AskId) -> AskRow | None:
        return self._one("get", id=id)

    def find(self, prefix: str) -> list[AskRow]:
        return self._all("find", first=prefix, last=prefix + AFTER_ANY)

    def move(self, id: AskId, to: AskState, *, at: float, decision: Decision | None = None) -> AskRow:
        row = self.get(id)
        if row is None:
            raise StoreError(f"there is no ask {id}")
        state = move_ask(row.state, to)
        answered_at = at if state == "answered" else None
        moved = self._one(
            "move", id=id, state=state, at=at, decision=_decision(decision), answered_at=answered_at
        )
        assert moved is not None, "it was there a moment ago"
        return moved

    def vote(self, id: AskId, votes: Sequence[Vote]) -> None:
        if not self._link.run("asks.vote", id=id, votes=to_json(list(votes))):
            raise StoreError(f"there is no open ask {id}")

    def show_in(self, id: AskId, places: Sequence[ConversationId]) -> AskRow:
        row = self.get(id)
        shown_in = [*(row.shown_in if row else ()), *places]
        shown = self._one("show_in", id=id, shown_in=to_json(shown_in))
        if shown is None:
            raise StoreError(f"there is no open ask {id}")
        return shown

    def amend(self, id: AskId, decision: Decision) -> AskRow:
        amended = self._one("amend", id=id, decision=to_json(decision))
        if amended is None:
            raise StoreError(f"there is no answered ask {id}")
        return amended

    def mark_used(self, id: AskId, *, turn_id: TurnId | None = None) -> None:
        self._link.run("asks.mark_used", id=id, turn_id=turn_id)

    def mark_unused(self, id: AskId) -> None:
        self._link.run("asks.mark_unused", id=id)

    def open_in(self, conversation_id: ConversationId) -> list[AskRow]:
        return self._all("open_in", conversation_id=conversation_id)

    def open_at(
        self, place: ConversationId, now: float, accepts: Callable[[Authority], bool]
    ) -> list[AskRow]:
        found = self._link.rows("asks.open_at", place=place, now=now)
        accepted = (id for id, authority in found if accepts(_authority(authority)))
        rows = [self.get(id) for id in islice(accepted, 2)]
        return [row for row in rows if row is not None]

    def open_question(
        self,
        conversation_id: ConversationId,
        now: float,
        accepts: Callable[[Authority], bool],
        *,
        session_id: SessionId | None = None,
    ) -> AskRow | None:
        """Find the first open question that `accepts` allows; only that one is decoded."""
        found = self._link.rows(
            "asks.open_questions", conversation_id=conversation_id, session_id=session_id, now=now
        )
        for id, authority in found:
            if accepts(_authority(authority)):
                return self.get(id)
        return None

    def open_of(self, session_id: SessionId) -> list[AskRow]:
        return self._all("open_of", session_id=session_id)

    def open_about(self, topic: str, *, limit: int = 100) -> list[AskRow]:
        return self._all("open_about", topic=topic, limit=limit)

    def newest(self, *, states: Sequence[AskState] = (), limit: int = 100) -> list[AskRow]:
        if not states:
            return self._all("newest_open", limit=limit)
        return self._all("newest", states=to_json(list(states)).decode(), limit=limit)

    def of_turn(self, turn_id: TurnId) -> list[AskRow]:
        return self._all("of_turn", turn_id=turn_id)

    def unused_of(self, session_id: SessionId) -> list[AskRow]:
        return self._all("unused_of", session_id=session_id)

    def unused_answer(self, session_id: SessionId, payload_hash: str) -> AskRow | None:
        return self._one("unused_answer", session_id=session_id, payload_hash=payload_hash)

    def expired(self, now: float, *, limit: int) -> list[AskRow]:
        return self._all("expired", now=now, limit=limit)

    def next_expiry(self) -> float | None:
        row = self._link.row("asks.next_expiry")
        return row[0] if row else None

    def shift(self, seconds: float, now: float) -> None:
        self._link.run("asks.shift", seconds=seconds, after=min(now, now - seconds))

    def _one(self, name: str, **values: Any) -> AskRow | None:
        row = self._link.row(f"asks.{name}", **values)
        return ask_row(row) if row else None

    def _all(self, name: str, **values: Any) -> list[AskRow]:
        return [ask_row(row) for row in self._link.rows(f"asks.{name}", **values)]


def _authority(stored: bytes | None) -> Authority:
    return _DEFAULT_AUTHORITY if stored is None else _decode_authority(stored)


def _decision(decision: Decision | None) -> bytes | None:
    return None if decision is None else to_json(decision)
