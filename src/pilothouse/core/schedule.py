"""Schedules: pure time arithmetic. A slot is the instant that was meant, never the instant it was noticed.

The next slot is counted from the slot before, so that a late start moves nothing. Which missed slots still run is
the schedule's own rule, and a slot's key makes sure that it runs once.
"""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.ids import ConversationId, ScheduleId

Missed = Literal["skip", "once", "all"]
MAX_CATCH_UP = 100
SKIP_AFTER_S = 60.0
"""A slot later than this was missed; only then does `skip` skip it."""


class At(Struct, frozen=True, tag="at"):
    at: float


class Every(Struct, frozen=True, tag="every"):
    every_s: float
    start_at: float


class Cron(Struct, frozen=True, tag="cron"):
    expression: str
    zone: str = "UTC"


Timing = At | Every | Cron


class CronSteps(Protocol):
    """The next instant after `after` that the expression names in its zone; None if there is none."""

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
    """What to do now: run these slots, then look again at `next_at`."""

    slots: tuple[float, ...]
    next_at: float | None


def next_slot(timing: Timing, after: float, cron: CronSteps) -> float | None:
    """The first slot strictly after `after`."""
    match timing:
        case At(at=at):
            return at if at > after else None
        case Every(every_s=every_s, start_at=start_at):
            return _next_step(every_s, start_at, after)
        case Cron():
            return cron(timing, after)


def _next_step(every_s: float, start_at: float, after: float) -> float:
    if after < start_at:
        return start_at
    slot = start_at + (int((after - start_at) // every_s) + 1) * every_s
    return slot if slot > after else slot + every_s


def due(schedule: Schedule, now: float, cron: CronSteps) -> Due:
    """Slots up to `now`, by the schedule's rule for missed ones. A single due slot was not missed: it runs."""
    slots: list[float] = []
    slot = schedule.next_at
    while slot is not None and slot <= now and len(slots) < MAX_CATCH_UP:
        slots.append(slot)
        slot = next_slot(schedule.timing, slot, cron)
    if slot is not None and slot <= now:
        slot = next_slot(schedule.timing, now, cron)
    if len(slots) > 1 and schedule.missed != "all":
        slots = slots[-1:]
    if schedule.missed == "skip" and slots and now - slots[-1] > SKIP_AFTER_S:
        slots = []
    return Due(tuple(slots), slot)
