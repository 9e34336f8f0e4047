"""Inbox and outbox: one shape, one set of queries. Only the node that holds a claim may end it.

The inbox also finds the conversations that may start a turn.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from pilothouse.core.errors import StoreError
from pilothouse.core.ids import ConversationId, EngineId, Epoch, MessageId, TurnId
from pilothouse.core.queue import Put, QueueRow
from pilothouse.stores.sqlite.blobs import note_uses
from pilothouse.stores.sqlite.errors import missing_parent
from pilothouse.stores.sqlite.link import Link, Row, to_json


def queue_row(row: Row) -> QueueRow:
    fields: list[Any] = [*row]
    fields[6] = Raw(row[6])
    return QueueRow(*fields)


class QueueTable:
    def __init__(self, link: Link, table: str) -> None:
        self._link = link
        self._table = table

    def put(
        self,
        *,
        id: MessageId,
        key: str,
        conversation_id: ConversationId,
        kind: str,
        body: bytes,
        at: float,
        ready_at: float = 0.0,
        turn_id: TurnId | None = None,
        waitlist: str | None = None,
    ) -> Put:
        try:
            row = self._link.row(
                f"{self._table}.put",
                id=id,
                key=key,
                lane=waitlist or conversation_id,
                conversation_id=conversation_id,
                kind=kind,
                body=body,
                at=at,
                ready_at=ready_at,
                turn_id=turn_id,
            )
        except sqlite3.IntegrityError as error:
            raise self._refused(error, id, conversation_id) from error
        if row is None:
            return Put(self._known(key), fresh=False)
        note_uses(self._link, self._table, id, body)
        return Put(queue_row(row), fresh=True)

    def get(self, id: MessageId) -> QueueRow | None:
        row = self._link.row(f"{self._table}.get", id=id)
        return queue_row(row) if row else None

    def by_key(self, key: str) -> QueueRow | None:
        row = self._link.row(f"{self._table}.by_key", key=key)
        return queue_row(row) if row else None

    def waiting(self, waitlist: str, *, ready_by: float = math.inf, limit: int = 100) -> list[QueueRow]:
        name = f"{self._table}.waiting"
        rows = self._link.rows(name, lane=waitlist, ready_by=ready_by, limit=limit)
        return [queue_row(row) for row in rows]

    def unfinished(self, conversation_id: ConversationId, *, limit: int = 100) -> list[QueueRow]:
        rows = self._link.rows(f"{self._table}.unfinished", conversation_id=conversation_id, limit=limit)
        return [queue_row(row) for row in rows]

    def claim(self, ids: Sequence[MessageId], *, turn_id: TurnId | None = None) -> list[QueueRow]:
        epoch = self._link.own_epoch("claim a row")
        rows = [self._link.row(f"{self._table}.claim", id=id, epoch=epoch, turn_id=turn_id) for id in ids]
        return [queue_row(row) for row in rows if row]

    def done(self, id: MessageId, at: float, why: str = "") -> bool:
        return self._held("end", id, status="done", at=at, why=why)

    def fail(self, id: MessageId, at: float, why: str) -> bool:
        return self._held("end", id, status="failed", at=at, why=why)

    def retry(self, id: MessageId, ready_at: float, why: str) -> bool:
        return self._held("retry", id, ready_at=ready_at, why=why)

    def release(self, id: MessageId) -> bool:
        return self._held("release", id)

    def withdraw(self, id: MessageId, at: float, why: str) -> bool:
        return self._link.run(f"{self._table}.withdraw", id=id, at=at, why=why) > 0

    def rewrite(self, id: MessageId, body: bytes, *, ready_at: float | None = None) -> bool:
        changed = self._link.run(f"{self._table}.rewrite", id=id, body=body, ready_at=ready_at) > 0
        if changed:
            note_uses(self._link, self._table, id, body)
        return changed

    def of_turn(self, turn_id: TurnId) -> list[QueueRow]:
        return [queue_row(row) for row in self._link.rows(f"{self._table}.of_turn", turn_id=turn_id)]

    def reap(self, epoch: Epoch) -> list[QueueRow]:
        if self._link.row("nodes.may_write", epoch=epoch):
            raise StoreError(f"node {epoch} is not fenced: its claims are still its own")
        held = self._link.rows(f"{self._table}.claimed_by", epoch=epoch)
        rows = [self._link.row(f"{self._table}.reap", seq=seq) for (seq,) in held]
        return [queue_row(row) for row in rows if row]

    def next_ready_at(self, now: float) -> float | None:
        row = self._link.row(f"{self._table}.next_ready_at", now=now)
        return row[0] if row else None

    def shift(self, seconds: float, now: float) -> None:
        after = min(now, now - seconds)
        self._link.run(f"{self._table}.shift", seconds=seconds, after=after)

    def _held(self, name: str, id: MessageId, **values: object) -> bool:
        return self._link.run(f"{self._table}.{name}", id=id, epoch=self._link.epoch, **values) > 0

    def _known(self, key: str) -> QueueRow:
        row = self.by_key(key)
        assert row is not None, "a key that conflicts is there"
        return row

    def _refused(self, error: sqlite3.IntegrityError, id: MessageId, place: ConversationId) -> StoreError:
        if missing_parent(error):
            return StoreError(f"the conversation {place} is not known to the store: ensure it first")
        return StoreError(f"the {self._table} already has a row {id}, under another key")


class InboxTable(QueueTable):
    def __init__(self, link: Link) -> None:
        super().__init__(link, "inbox")

    def startable(
        self, now: float, *, engines: Sequence[EngineId] | None, limit: int
    ) -> list[ConversationId]:
        wanted = None if engines is None else to_json(list(engines)).decode()
        rows = self._link.rows("inbox.startable", now=now, engines=wanted, limit=limit)
        return [row[0] for row in rows]
