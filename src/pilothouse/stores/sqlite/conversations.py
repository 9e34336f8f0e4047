"""Conversations and sessions, which are never pruned."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.errors import StoreError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import ConversationId, EngineId, SessionId
from pilothouse.core.message import Address
from pilothouse.stores.sqlite.link import Link, Row, to_json
from pilothouse.stores.sqlite.turns import AFTER_ANY


def conversation_of(row: Row) -> Conversation:
    id, channel, place, thread, created_at, private, *binding = row
    return Conversation(id, Address(channel, place, thread), created_at, bool(private), *binding)


def session_of(row: Row) -> Session:
    engine, value, cwd = row[7:10]
    resume = None if value is None else ResumeToken(engine, value, cwd)
    fields: list[Any] = [*row[:7], resume, bool(row[10]), *row[11:]]
    return Session(*fields)


class ConversationTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def ensure(self, conversation: Conversation) -> Conversation:
        stored = self.get(conversation.id)
        if stored is None:
            self._link.run("conversations.add", **_conversation_values(conversation))
            self._link.seen["conversations", conversation.id] = conversation
        return stored or conversation

    def get(self, id: ConversationId) -> Conversation | None:
        found: Conversation | None = self._link.seen.get(("conversations", id))
        if found is None and (row := self._link.row("conversations.get", id=id)):
            found = self._link.seen["conversations", id] = conversation_of(row)
        return found

    def some(self, ids: Iterable[ConversationId]) -> dict[ConversationId, Conversation]:
        rows = self._link.rows("conversations.some", ids=to_json([*ids]).decode())
        return {row[0]: conversation_of(row) for row in rows}

    def threads_of(self, id: ConversationId, *, limit: int = 500) -> list[Conversation]:
        first = f"{id}#"
        rows = self._link.rows("conversations.threads_of", first=first, last=first + AFTER_ANY, limit=limit)
        return [conversation_of(row) for row in rows]

    def save(self, conversation: Conversation) -> None:
        self._link.run("conversations.save", **_conversation_values(conversation))
        self._link.seen["conversations", conversation.id] = conversation

    def list(self, *, limit: int = 100) -> list[Conversation]:
        return [conversation_of(row) for row in self._link.rows("conversations.newest", limit=limit)]


class SessionTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def add(self, session: Session) -> None:
        try:
            self._link.run("sessions.add", **_session_values(session))
        except sqlite3.IntegrityError as error:
            raise StoreError(f"{session.id} is stored already") from error
        self._link.seen["sessions", session.id] = session

    def get(self, id: SessionId) -> Session | None:
        found: Session | None = self._link.seen.get(("sessions", id))
        if found is None and (row := self._link.row("sessions.get", id=id)):
            found = self._link.seen["sessions", id] = session_of(row)
        return found

    def save(self, session: Session) -> None:
        if not self._link.run("sessions.save", **_session_values(session)):
            raise StoreError(f"{session.id} is not stored: add it first")
        self._link.seen["sessions", session.id] = session

    def of(self, conversation_id: ConversationId | None = None, *, limit: int = 100) -> list[Session]:
        if conversation_id is None:
            rows = self._link.rows("sessions.newest", limit=limit)
        else:
            rows = self._link.rows("sessions.of", conversation_id=conversation_id, limit=limit)
        return [session_of(row) for row in rows]

    def by_resume(self, engine: EngineId, value: str) -> Session | None:
        row = self._link.row("sessions.by_resume", engine=engine, value=value)
        return session_of(row) if row else None

    def find(self, prefix: str) -> list[Session]:
        rows = self._link.rows("sessions.find", first=prefix, last=prefix + AFTER_ANY)
        return [session_of(row) for row in rows]


def _conversation_values(conversation: Conversation) -> dict[str, Any]:
    address = conversation.address
    return {
        "id": conversation.id,
        "channel": address.channel,
        "place": address.place,
        "thread": address.thread,
        "created_at": conversation.created_at,
        "private": conversation.private,
        "workspace": conversation.workspace,
        "engine": conversation.engine,
        "model": conversation.model,
        "busy": conversation.busy,
        "session_id": conversation.session_id,
    }


def _session_values(session: Session) -> dict[str, Any]:
    resume = session.resume
    return {
        "id": session.id,
        "conversation_id": session.conversation_id,
        "engine": session.engine,
        "workspace": session.workspace,
        "created_at": session.created_at,
        "used_at": session.used_at,
        "model": session.model,
        "resume_engine": resume and resume.engine,
        "resume_value": resume and resume.value,
        "resume_cwd": resume and resume.cwd,
        "retired": session.retired,
        "failed_resumes": session.failed_resumes,
        "turns": session.turns,
        "cost_usd": session.cost_usd,
    }
