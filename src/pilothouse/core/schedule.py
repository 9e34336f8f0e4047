"""Schedules: pure time arithmetic. A slot is the planned instant, not the time at which it was noticed.

The next slot is computed from the slot before, so a late start shifts nothing. The schedule's `missed` rule decides
which missed slots still run, and a slot's key makes it run once.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId, ScheduleId

Missed = Literal["skip", "once", "all"]
MAX_CATCH_UP = 100
"""At most this many missed slots run, the newest ones."""
MIN_EVERY_S = 1.0
SKIP_AFTER_S = 60.0
"""A slot that is later than this counts as missed, and `skip` skips it."""


class At(Struct, frozen=True, tag="at"):
    at: float


class Every(Struct, frozen=True, tag="every"):
    every_s: float
    start_at: float

    def __post_init__(self) -> None:
        if not MIN_EVERY_S <= self.every_s < math.inf:
            raise ConfigError(f"a schedule cannot run every {self.every_s:g} s; use at least one second")


class Cron(Struct, frozen=True, tag="cron"):
    expression: str
    zone: str = "UTC"


Timing = At | Every | Cron


class CronSteps(Protocol):
    """Returns the next instant after `after` that the expression names in its zone; None if there is none."""

    def __call__(self, cron: Cron, after: float) -> float | None: ...


class Schedule(Struct, frozen=True):
    id: ScheduleId
    conversation_id: ConversationId
    timing: Timing
    prompt: str
    missed: Missed = "once"
    next_at: float | None = None
    paused: bool = False


class Due(Struct, frozen=True):
    """The slots to run now, and the time of the next one."""

    slots: tuple[float, ...]
    next_at: float | None


def next_slot(timing: Timing, after: float, cron: CronSteps) -> float | None:
    """Return the first slot strictly after `after`."""
    match timing:
        case At(at=at):
            return at if at > after else None
        case Every(every_s=every_s, start_at=start_at):
            return _next_step(every_s, start_at, after)
        case Cron():
            return cron(timing, after)


def _next_step(every_s: float, start_at: float, after: float) -> float:
    """Compute `start_at` plus whole steps, never a slot plus a step: rounding must not give one slot two keys."""
    step = max(0, math.floor((after - start_at) / every_s))
    while start_at + step * every_s <= after:
        step += 1
    return start_at + step * every_s


def due(schedule: Schedule, now: float, cron: CronSteps) -> Due:
    """Return the slots to run at `now`, and the first one after it.

    Of missed slots, `all` runs each, `once` the newest, and `skip` the newest unless it is late.
    """
    if schedule.next_at is None or schedule.next_at > now:
        return Due((), schedule.next_at)
    slots = _newest(schedule.timing, schedule.next_at, now, cron)
    next_at = next_slot(schedule.timing, slots[-1], cron)
    if schedule.missed != "all":
        slots = slots[-1:]
    if schedule.missed == "skip" and now - slots[-1] > SKIP_AFTER_S:
        slots.clear()
    return Due(tuple(slots), next_at)


def _newest(timing: Timing, first: float, now: float, cron: CronSteps) -> list[float]:
    """Return the newest slots from `first` to `now`, at most `MAX_CATCH_UP`.

    Bisects the time: walking through a year of missed minutes would block the gateway.
    """
    slots = _walk(timing, first, now, cron)
    if len(slots) <= MAX_CATCH_UP:
        return slots
    early, late = first, now  # too many slots follow `early`, not too many follow `late`
    while late - early > MIN_EVERY_S / 2:
        middle = (early + late) / 2
        following = _walk(timing, next_slot(timing, middle, cron), now, cron)
        if len(following) > MAX_CATCH_UP:
            early = middle
        else:
            late, slots = middle, following
    return slots


def _walk(timing: Timing, slot: float | None, now: float, cron: CronSteps) -> list[float]:
    """Return the slots from `slot` to `now`, at most one more than `MAX_CATCH_UP`."""
    slots: list[float] = []
    while slot is not None and slot <= now and len(slots) <= MAX_CATCH_UP:
        slots.append(slot)
        slot = next_slot(timing, slot, cron)
    return slots


class Schedules(Protocol):
    def save(self, schedule: Schedule) -> None: ...

    def get(self, id: ScheduleId) -> Schedule | None: ...

    def remove(self, id: ScheduleId) -> bool: ...

    def of(self, conversation_id: ConversationId | None = None) -> list[Schedule]: ...

    def due(self, now: float) -> list[Schedule]: ...

    def next_at(self) -> float | None: ...
