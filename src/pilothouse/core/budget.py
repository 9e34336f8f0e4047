"""Budgets per day: what a turn reserves before it starts, what it settles with, what is left. Pure arithmetic.

Rules: a turn starts only if its reservation fits under every cap that covers it, and its share, which is all that its
engine may spend, is taken from what others may: so what is spent stays below the cap as long as engines keep to their
shares, however many run at once; a turn that does not tell its cost counts with its reservation, and is
never said to have cost that; an alert is given once per level, scope and day.

Where money went, what is reserved, and what people decided about a day's cap. The arithmetic is in `budget.py`.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta, tzinfo
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.ids import AskId, ConversationId, EngineId, TurnId

ScopeKind = Literal["all", "workspace", "conversation"]
ALERTS = (50, 80, 100)
"""Percent of a cap at which people are told."""
_DUST = 1e-9
"""Sums of floating numbers are never exact; nobody pays in billionths."""


CONVERSATION_AT_ONCE = 2
"""A conversation has one turn at a time, and another where a new session began beside it."""


class Scope(Struct, frozen=True):
    """What a cap covers: everything, one workspace, or one conversation."""

    kind: ScopeKind
    name: str = ""

    @property
    def key(self) -> str:
        return f"{self.kind} {self.name}".strip()

    def at_once(self, most: int) -> int:
        """How many turns may run there, where so many may run in all."""
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
    """Dollars per day; None is no cap."""

    all_usd: float | None = None
    workspace_usd: float | None = None
    conversation_usd: float | None = None
    least_usd: float = 0.05
    """What a turn reserves at least."""
    more_usd: float | None = None
    """How much more an owner is asked for; None is a quarter of the cap."""

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


class Standing(Struct, frozen=True):
    """How one scope stands on one day."""

    scope: Scope
    day: str
    cap_usd: float
    raised_usd: float = 0.0
    spent_usd: float = 0.0
    assumed_usd: float = 0.0
    """The reservations of turns that ran and did not tell their cost."""
    reserved_usd: float = 0.0
    """The shares of turns that run now."""
    running: int = 0
    """How many these are."""

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
        return amount_usd <= self.left_usd + _DUST


def estimate(caps: Caps, session_average: float | None, engine_average: float | None) -> float:
    """What a turn is expected to cost: as its session's before it, else as its engine's lately."""
    known = engine_average if session_average is None else session_average
    return max(caps.least_usd, known or 0.0)


def share_of(standing: Standing, amount_usd: float, at_once: int) -> float:
    """What a turn may spend that reserves so much, where so many may run at once.

    Half of what is left is for others, and for each that may still start beside it as much as it reserves itself; but
    it has its reservation at least, and the last has all that is left.
    """
    others, left = max(0, at_once - standing.running - 1), standing.left_usd
    return max(amount_usd, min(left - others * amount_usd, left / 2) if others else left)


def more_needed(caps: Caps, standing: Standing, amount_usd: float) -> float:
    """How much more to ask for, in whole cents: enough for this turn, and for some after it."""
    step = standing.cap_usd / 4 if caps.more_usd is None else caps.more_usd
    return math.ceil(max(step, amount_usd - standing.left_usd) * 100 - 1e-6) / 100


def alert_due(standing: Standing, alerted: int) -> int | None:
    """The highest level that is reached and was not told yet; those below it are told with it."""
    reached = [level for level in ALERTS if standing.percent >= level - 1e-6]
    return reached[-1] if reached and reached[-1] > alerted else None


def day_of(at: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at, zone).date().isoformat()


def next_day_at(at: float, zone: tzinfo) -> float:
    """When the next day begins there."""
    tomorrow = datetime.fromtimestamp(at, zone).date() + timedelta(days=1)
    return datetime(tomorrow.year, tomorrow.month, tomorrow.day, tzinfo=zone).timestamp()


class Pace(Struct, frozen=True):
    """How fast one person may send: so many a minute, all of them at once if they like."""

    per_minute: int

    def admit(self, free_at: float, now: float) -> tuple[float, float]:
        """`free_at` is when everything that was sent so far is paid off. Returns the next one, and how many seconds
        are missing; above zero nothing changed."""
        each_s = 60.0 / self.per_minute
        later = max(free_at, now) + each_s
        wait_s = later - now - 60.0
        return (free_at, wait_s) if wait_s > _DUST else (later, 0.0)


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
