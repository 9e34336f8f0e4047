"""Transcripts: the entries of each session that are kept to read, to export and to search, and the state of its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.ids import ConversationId, SessionId, TurnId

Role = Literal["person", "agent", "step", "ask", "notice"]


class Entry(Struct, frozen=True):
    session_id: SessionId
    conversation_id: ConversationId
    workspace: str
    turn_id: TurnId
    at: float
    role: Role
    who: str
    text: str


class Transcript(Struct, frozen=True):
    """`name` is that of its two files without suffix; `written` has their sizes, 0 if they must be written anew."""

    session_id: SessionId
    workspace: str
    name: str
    used_at: float
    written: tuple[int, int] = (0, 0)


class Transcripts(Protocol):
    def due(self, *, limit: int = 50) -> Mapping[TurnId, int]:
        """Return turns that ended or were requested, oldest first, and how many of their entries are stored."""
        ...

    def request(self, turn_id: TurnId) -> None: ...

    def add(self, turn_id: TurnId, entries: Sequence[Entry], *, complete: bool) -> None:
        """Store further entries of a turn. It is no longer due, and a complete one never again."""
        ...

    def entries(self, session_id: SessionId, *, limit: int = 10_000) -> list[Entry]: ...

    def get(self, session_id: SessionId) -> Transcript | None: ...

    def save(self, transcript: Transcript) -> None: ...

    def search(
        self, words: str, place: ConversationId | None = None, *, shared_in: str = "", limit: int = 100
    ) -> list[Entry]:
        """Return entries with all of these words, or else with words that begin so, newest first, excerpts as their text.
        Chinese, Japanese and Korean are found anywhere in a text.

        With `place`: only those of the conversation and its schedules, and of the ones in the workspace `shared_in` that are not private."""
        ...

    def unused_since(self, before: float, *, limit: int = 10) -> list[Transcript]: ...

    def prune(self, session_id: SessionId, *, limit: int = 500) -> int:
        """Delete entries of a session, with the last of them its transcript. Returns how many were deleted."""
        ...
