"""Rules that somebody made in a chat or on the machine, as they are kept. What a rule says is in `rules.py`."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from pilothouse.core.ids import RuleId, SessionId


class RuleRow(Struct, frozen=True):
    """A rule that somebody made, word by word. Without a session it lasts; without a workspace it holds everywhere.

    `mark` is what the folder was known by: an allow is not for another folder that took its place.
    """

    id: RuleId
    workspace: str
    mark: str
    rule: str
    by: str
    created_at: float
    session_id: SessionId | None = None


class Rules(Protocol):
    def add(self, row: RuleRow) -> bool:
        """False, and nothing changes, if this very rule is there already for the same folder and session."""
        ...

    def remove(self, id: RuleId) -> RuleRow | None:
        """The rule that was there."""
        ...

    def of(self, workspace: str, session_id: SessionId | None = None) -> list[RuleRow]:
        """What holds there: its own and those that hold everywhere, and the session's; oldest first."""
        ...

    def list(self) -> list[RuleRow]:
        """Every rule, oldest first."""
        ...
