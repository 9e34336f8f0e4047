"""Conversations, which are the places where people talk, with their binding; and sessions, an engine's memory of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import ConversationId, EngineId, SessionId
from pilothouse.core.message import Address

BusyPolicy = Literal["collect", "queue", "steer", "interrupt"]
ThreadSessions = Literal["own", "shared"]


class Conversation(Struct, frozen=True):
    """A conversation and its binding. None means "as configured"."""

    id: ConversationId
    address: Address
    created_at: float
    private: bool = False
    workspace: str | None = None
    engine: EngineId | None = None
    model: str | None = None
    busy: BusyPolicy | None = None
    session_id: SessionId | None = None


class Session(Struct, frozen=True):
    """An engine's memory of a conversation. `failed_resumes` counts in a row; a retired one is never resumed."""

    id: SessionId
    conversation_id: ConversationId
    engine: EngineId
    workspace: str
    created_at: float
    used_at: float
    model: str | None = None
    resume: ResumeToken | None = None
    retired: bool = False
    failed_resumes: int = 0
    turns: int = 0
    cost_usd: float | None = None
    """Sum of the costs that its turns reported; None while none did."""


class Conversations(Protocol):
    def ensure(self, conversation: Conversation) -> Conversation:
        """Return the stored conversation; store this one if there is none."""
        ...

    def get(self, id: ConversationId) -> Conversation | None: ...

    def some(self, ids: Iterable[ConversationId]) -> dict[ConversationId, Conversation]:
        """Return those that are known, in one query."""
        ...

    def threads_of(self, id: ConversationId, *, limit: int = 500) -> list[Conversation]:
        """Return the threads of a place, newest first."""
        ...

    def save(self, conversation: Conversation) -> None: ...

    def list(self, *, limit: int = 100) -> list[Conversation]:
        """Newest first."""
        ...


class Sessions(Protocol):
    def add(self, session: Session) -> None: ...

    def get(self, id: SessionId) -> Session | None: ...

    def save(self, session: Session) -> None:
        """Update a stored session. Raises `StoreError` if there is none."""
        ...

    def of(self, conversation_id: ConversationId | None = None, *, limit: int = 100) -> list[Session]:
        """Newest first."""
        ...

    def by_resume(self, engine: EngineId, value: str) -> Session | None: ...

    def find(self, prefix: str) -> list[Session]:
        """Return sessions whose id starts with `prefix`, newest first, at most 20."""
        ...
