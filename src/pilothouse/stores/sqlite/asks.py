"""Asks (law 6): a row before it is a button; every move is checked by the table in core."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from pilothouse.core.ask import Ask, AskState, Decision, move_ask
from pilothouse.core.errors import StoreError
from pilothouse.core.ids import AskId, ConversationId, SessionId, TurnId
from pilothouse.core.store import AskRow
from pilothouse.stores.sqlite.link import Link, Row, to_json
from pilothouse.stores.sqlite.turns import AFTER_ANY

_decode_ask = msgspec.json.Decoder(Ask).decode
_decode_decision = msgspec.json.Decoder(Decision).decode


def ask_row(row: Row) -> AskRow:
    ask = _decode_ask(row[0])
    if ask.expires_at != row[1]:
        ask = msgspec.structs.replace(ask, expires_at=row[1])
    decision = None if row[8] is None else _decode_decision(row[8])
    fields: list[Any] = [ask, *row[2:8], decision, row[9], bool(row[10])]
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
                ask=to_json(row.ask),
                decision=_decision(row.decision),
                answered_at=row.answered_at,
                ended_at=ended_at,
                used=row.used,
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

    def mark_used(self, id: AskId, *, turn_id: TurnId | None = None) -> None:
        self._link.run("asks.mark_used", id=id, turn_id=turn_id)

    def give_back(self, id: AskId) -> None:
        self._link.run("asks.give_back", id=id)

    def open_in(self, conversation_id: ConversationId) -> list[AskRow]:
        return self._all("open_in", conversation_id=conversation_id)

    def of_turn(self, turn_id: TurnId) -> list[AskRow]:
        return self._all("of_turn", turn_id=turn_id)

    def unused_answer(self, session_id: SessionId, payload_hash: str) -> AskRow | None:
        return self._one("unused_answer", session_id=session_id, payload_hash=payload_hash)

    def open_like(self, session_id: SessionId, payload_hash: str) -> AskRow | None:
        return self._one("open_like", session_id=session_id, payload_hash=payload_hash)

    def expired(self, now: float) -> list[AskRow]:
        return self._all("expired", now=now)

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


def _decision(decision: Decision | None) -> bytes | None:
    return None if decision is None else to_json(decision)
