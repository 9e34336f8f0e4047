"""Daily budgets: pure arithmetic over caps, reservations and spending, and the table that keeps them.

A turn starts only if its reservation fits under every cap that covers it. Its share is the most its engine may spend,
and other turns cannot reserve it; so spending stays below the cap while engines keep to their shares. A turn whose
engine reports no cost counts with its reservation, and is never said to have cost that. An alert is sent once per
level, scope and day.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, tzinfo
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.ids import AskId, ConversationId, EngineId, TurnId

ScopeKind = Literal["all", "workspace", "conversation"]
ALERTS = (50, 80, 100)
"""Percent of a cap at which an alert is sent."""
_ROUNDING_USD = 1e-9
"""Tolerance for floating-point sums."""
CONVERSATION_AT_ONCE = 2
"""A conversation runs one turn at a time, plus one where a new session began beside it."""


class Scope(Struct, frozen=True):
    """The range of a cap: everything, one workspace, or one conversation."""

    kind: ScopeKind
    name: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind} {self.name}".strip()

    def max_turns(self, most: int) -> int:
        """Return how many turns may run in this scope, if `most` may run in all."""
        return min(most, CONVERSATION_AT_ONCE) if self.kind == "conversation" else most

    @property
    def words(self) -> str:
        match self.kind:
            case "all":
                return "everything"
            case "workspace":
                return f"the workspace {self.name}"
            case _:
                return f"the conversation {self.name}"


class Caps(Struct, frozen=True):
    """Dollars per day; None means no cap."""

    all_usd: float | None = None
    workspace_usd: float | None = None
    conversation_usd: float | None = None
    least_usd: float = 0.05
    """The smallest reservation of a turn."""
    more_usd: float | None = None
    """The increase that an owner is asked for; None is a quarter of the cap."""

    @property
    def any(self) -> bool:
        return (self.all_usd, self.workspace_usd, self.conversation_usd) != (None, None, None)

    def of(self, workspace: str, conversation_id: ConversationId) -> list[tuple[Scope, float]]:
        """The caps that cover a turn there, the narrowest first."""
        caps = (
            (Scope("conversation", conversation_id), self.conversation_usd),
            (Scope("workspace", workspace), self.workspace_usd),
            (Scope("all"), self.all_usd),
        )
        return [(scope, cap) for scope, cap in caps if cap is not None]


class CapStatus(Struct, frozen=True):
    """Spending and reservations of one scope on one day."""

    scope: Scope
    day: str
    cap_usd: float
    raised_usd: float = 0.0
    spent_usd: float = 0.0
    assumed_usd: float = 0.0
    """Reservations of ended turns whose engine reported no cost."""
    reserved_usd: float = 0.0
    """Shares of the turns that run now."""
    running: int = 0
    """Number of turns that run now."""

    @property
    def limit_usd(self) -> float:
        return self.cap_usd + self.raised_usd

    @property
    def used_usd(self) -> float:
        return self.spent_usd + self.assumed_usd

    @property
    def left_usd(self) -> float:
        return self.limit_usd - self.used_usd - self.reserved_usd

    @property
    def percent(self) -> float:
        return 100.0 * self.used_usd / self.limit_usd if self.limit_usd > 0 else 100.0

    def fits(self, amount_usd: float) -> bool:
        return amount_usd <= self.left_usd + _ROUNDING_USD


def estimate(caps: Caps, session_average: float | None, engine_average: float | None) -> float:
    """Expected cost of a turn: the average of its session, else the recent average of its engine."""
    known = engine_average if session_average is None else session_average
    return max(caps.least_usd, known or 0.0)


def share_of(cap: CapStatus, amount_usd: float, max_turns: int) -> float:
    """The most that a turn may spend if it reserves `amount_usd` and `max_turns` may run at once.

    Half of what is left stays for other turns, and at least `amount_usd` for each that may still start. A turn always
    gets its reservation; the last one that fits gets everything left."""
    others, left = max(0, max_turns - cap.running - 1), cap.left_usd
    return max(amount_usd, min(left - others * amount_usd, left / 2) if others else left)


def more_needed(caps: Caps, cap: CapStatus, amount_usd: float) -> float:
    """The increase to ask for, in whole cents: enough for this turn and for some after it."""
    step = cap.cap_usd / 4 if caps.more_usd is None else caps.more_usd
    return math.ceil(max(step, amount_usd - cap.left_usd) * 100 - 1e-6) / 100


def alert_due(cap: CapStatus, alerted: int) -> int | None:
    """The highest level reached, if it is above the last one `alerted`."""
    reached = [level for level in ALERTS if cap.percent >= level - 1e-6]
    return reached[-1] if reached and reached[-1] > alerted else None


def day_of(at: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at, zone).date().isoformat()


def next_day_at(at: float, zone: tzinfo) -> float:
    """The start of the next day in `zone`."""
    tomorrow = datetime.fromtimestamp(at, zone).date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone).timestamp()


class Pace(Struct, frozen=True):
    """A rate limit for one person: `per_minute` messages, also in one burst."""

    per_minute: int

    def admit(self, free_at: float, now: float) -> tuple[float, float]:
        """Take one message. `free_at` is the time at which the messages so far no longer count.

        Returns the new `free_at` and the seconds to wait; above zero the message was not taken."""
        each_s = 60.0 / self.per_minute
        later = max(free_at, now) + each_s
        wait_s = later - now - 60.0
        return (free_at, wait_s) if wait_s > _ROUNDING_USD else (later, 0.0)


class Spent(Struct, frozen=True):
    """Cost of a day's turns with one cause in one place. `untold` of them reported no cost."""

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
    """Money set aside for an unfinished turn. With an `ask_id`, nothing is set aside: the turn is held for that ask."""

    turn_id: TurnId
    day: str
    workspace: str
    conversation_id: ConversationId
    amount_usd: float
    ask_id: AskId | None = None
    share_usd: float = 0.0
    """The most its engine may spend, where that exceeds `amount_usd`; no other turn may reserve it."""

    @property
    def taken_usd(self) -> float:
        return max(self.amount_usd, self.share_usd)


class CapDay(Struct, frozen=True):
    """Decisions and alerts about one scope (`Scope.key`) on one day."""

    day: str
    scope: str
    raised_usd: float = 0.0
    alerted: int = 0
    """The highest alert sent, in percent."""
    ask_id: AskId | None = None
    """The last ask for a raise."""


class Spending(Protocol):
    """Spending, kept per day; it outlives the turns."""

    def add(self, spent: Spent) -> None:
        """Add to the row of that day, place, engine and cause."""
        ...

    def of(self, *, since: str = "") -> list[Spent]:
        """From that day on, oldest first."""
        ...

    def cap_status(self, scope: Scope, day: str, cap_usd: float) -> CapStatus: ...

    def average(self, engine: EngineId, since: str) -> float | None:
        """Average cost of turns since that day that reported one; None if there were none."""
        ...

    def reserve(self, reservation: Reservation) -> None:
        """Replace the turn's reservation."""
        ...

    def get(self, turn_id: TurnId) -> Reservation | None: ...

    def release(self, turn_id: TurnId) -> Reservation | None:
        """Remove and return the reservation, if any."""
        ...

    def held(self, ask_id: AskId) -> list[Reservation]:
        """Turns held for this ask, oldest first."""
        ...

    def cap_day(self, scope: Scope, day: str) -> CapDay: ...

    def save_cap_day(self, cap_day: CapDay) -> None: ...
