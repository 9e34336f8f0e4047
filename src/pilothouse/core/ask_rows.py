"""Asks as they are kept: whose turn asked, who may answer, how it stands, and whether the engine has heard it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from pilothouse.core.approvers import Authority, Vote
from pilothouse.core.ask import Ask, AskState, Decision
from pilothouse.core.ids import AskId, ConversationId, SessionId, TurnId


class AskRow(Struct, frozen=True):
    """`engine_key` is the id under which the engine asked: the ask's own id is ours and outlives the engine.

    Where the house asks by itself, `topic` says about what; `session_id` and `turn_id` are empty if it is about none.
    """

    ask: Ask
    conversation_id: ConversationId
    session_id: SessionId
    turn_id: TurnId
    engine_key: str
    state: AskState
    asked_at: float
    decision: Decision | None = None
    answered_at: float | None = None
    used: bool = False
    """The decision reached an engine. One that did not may still be used, once, for the same payload."""
    authority: Authority = Authority()
    votes: tuple[Vote, ...] = ()
    """Each yes so far, where several people must say it."""
    shown_in: tuple[ConversationId, ...] = ()
    """Where it is shown besides its own conversation."""
    topic: str = ""
    about: AskId | None = None
    """The ask whose reason this one wants to know."""

    @property
    def subject(self) -> str:
        """In one word, for lists: what the house asks about, else what an engine wants."""
        return self.topic or self.ask.kind


def meant(found: Sequence[AskRow], word: str) -> Sequence[AskRow]:
    """Of asks whose id begins with `word`: the one with just that id, else the open ones, else all of them.

    Nobody who types a few letters means one that is settled while another waits.
    """
    exact = [row for row in found if row.ask.id == word]
    return exact or [row for row in found if row.state == "open"] or found


class Asks(Protocol):
    def add(self, row: AskRow) -> None: ...

    def get(self, id: AskId) -> AskRow | None: ...

    def find(self, prefix: str) -> list[AskRow]:
        """Asks whose id starts so, the open ones first, then the newest, at most 20."""
        ...

    def move(self, id: AskId, to: AskState, *, at: float, decision: Decision | None = None) -> AskRow:
        """Checked by the table in `ask.py`. Raises `IllegalMove`, and then nothing changed."""
        ...

    def vote(self, id: AskId, votes: Sequence[Vote]) -> None:
        """Replaces the votes; `StoreError` unless it is open."""
        ...

    def show_in(self, id: AskId, places: Sequence[ConversationId]) -> AskRow:
        """It is shown there too. `StoreError` unless it is open."""
        ...

    def amend(self, id: AskId, decision: Decision) -> AskRow:
        """The reason of a decision came later. `StoreError` unless it is answered."""
        ...

    def mark_used(self, id: AskId, *, turn_id: TurnId | None = None) -> None:
        """`turn_id` is the turn whose engine hears it, where that is not the one that asked: it owns the ask now."""
        ...

    def give_back(self, id: AskId) -> None:
        """The engine that heard the decision is gone and had done nothing: it may be used once more."""
        ...

    def open_in(self, conversation_id: ConversationId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_question(
        self,
        conversation_id: ConversationId,
        now: float,
        accepts: Callable[[Authority], bool],
        *,
        session_id: SessionId | None = None,
    ) -> AskRow | None:
        """The one that a plain reply answers: the oldest, of the oldest 20 that have time left, that `accepts` it."""
        ...

    def open_of(self, session_id: SessionId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_about(self, topic: str, *, limit: int = 100) -> list[AskRow]:
        """What the house itself asks, oldest first."""
        ...

    def newest(self, *, states: Sequence[AskState] = (), limit: int = 100) -> list[AskRow]:
        """Newest first; without `states`, those that are open."""
        ...

    def of_turn(self, turn_id: TurnId) -> list[AskRow]: ...

    def unused_of(self, session_id: SessionId) -> list[AskRow]:
        """Every answer that never reached an engine, oldest first."""
        ...

    def unused_answer(self, session_id: SessionId, payload_hash: str) -> AskRow | None:
        """An answered ask of this session whose decision never reached an engine."""
        ...

    def expired(self, now: float, *, limit: int) -> list[AskRow]: ...

    def next_expiry(self) -> float | None: ...

    def shift(self, seconds: float, now: float) -> None: ...
