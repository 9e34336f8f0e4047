"""Where money went, what is reserved, and what people decided about a day's cap. The arithmetic is in `budget.py`."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from pilothouse.core.budget import Scope, Standing
from pilothouse.core.ids import AskId, ConversationId, EngineId, TurnId


class Spent(Struct, frozen=True):
    """What a day's turns of one kind in one place cost. `untold` of them did not say."""

    day: str
    conversation_id: ConversationId
    workspace: str
    engine: EngineId
    cause: str
    turns: int = 0
    untold: int = 0
    cost_usd: float = 0.0
    assumed_usd: float = 0.0


class Reservation(Struct, frozen=True):
    """What an unended turn may cost. With an `ask_id` it is not taken: the turn is held until that ask is settled."""

    turn_id: TurnId
    day: str
    workspace: str
    conversation_id: ConversationId
    amount_usd: float
    ask_id: AskId | None = None
    share_usd: float = 0.0
    """What its engine was told that it may spend, where that is more: nobody else may reserve it."""

    @property
    def taken_usd(self) -> float:
        return max(self.amount_usd, self.share_usd)


class CapDay(Struct, frozen=True):
    """What people decided and were told about one scope (`Scope.key`) on one day."""

    day: str
    scope: str
    raised_usd: float = 0.0
    alerted: int = 0
    """The highest level, in percent, that people were told of."""
    ask_id: AskId | None = None
    """The last ask for more."""


class Spending(Protocol):
    """Where money went. It is kept by the day and outlives the turns themselves."""

    def add(self, spent: Spent) -> None:
        """Adds to what that day, place, engine and cause cost already."""
        ...

    def of(self, *, since: str = "") -> list[Spent]:
        """From that day on, oldest first."""
        ...

    def standing(self, scope: Scope, day: str, cap_usd: float) -> Standing: ...

    def average(self, engine: EngineId, since: str) -> float | None:
        """What a turn that told its cost came to, from that day on; None if there was none."""
        ...

    def reserve(self, reservation: Reservation) -> None:
        """One for each turn: it replaces what the turn had reserved before."""
        ...

    def get(self, turn_id: TurnId) -> Reservation | None: ...

    def release(self, turn_id: TurnId) -> Reservation | None:
        """What it was, if there was one."""
        ...

    def held(self, ask_id: AskId) -> list[Reservation]:
        """Those that wait for an ask, oldest first."""
        ...

    def cap_day(self, scope: Scope, day: str) -> CapDay: ...

    def save_cap_day(self, cap_day: CapDay) -> None: ...
