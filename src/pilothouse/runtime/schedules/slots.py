"""The arithmetic of slots: pure, and without a transaction. The next slot is computed from the slot before.

`plan` looks at the slots that came due, and says of each whether it is to run: `missed` decides about late ones, and no
slot older than `max_age_s` ever runs. Each slot is planned once, so each gets one row. Slots that nobody noticed for
longer than the history is kept share the row of the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from pilothouse.core.schedule import At, Cron, Every, Schedule, Timing
from pilothouse.core.text import long_span
from pilothouse.runtime.schedules.cron import cron_slots

MAX_CATCH_UP = 100
"""At most this many late slots run, the newest ones."""
SKIP_AFTER_S = 60.0
"""A slot that is noticed later than this counts as missed."""
CHUNK = 500
"""At most this many slots are planned, and written, at once."""

NEWER = "a later time was due as well"
LATE = "it was missed"
TOO_MANY = f"more than {MAX_CATCH_UP} were missed"
LONG_AGO = "it was missed, like all others until the history begins"


class PlannedSlot(Struct, frozen=True):
    """A due slot. With `skip` it does not run, for that reason; `late` says that it was noticed late."""

    slot: float
    skip: str = ""
    late: bool = False


class Plan(Struct, frozen=True):
    """The slots to write now and the next slot after them, which may be due as well."""

    slots: tuple[PlannedSlot, ...]
    next_at: float | None


def slots_after(timing: Timing, after: float) -> Iterator[float]:
    """Yield the slots strictly after `after`."""
    match timing:
        case At(at=at):
            return iter([at] if at > after else [])
        case Every(every_s=every_s, start_at=start_at):
            return _steps(every_s, start_at, after)
        case Cron():
            return cron_slots(timing, after)


def next_slot(timing: Timing, after: float) -> float | None:
    """Return the first slot strictly after `after`."""
    return next(slots_after(timing, after), None)


def _steps(every_s: float, start_at: float, after: float) -> Iterator[float]:
    """Yield `start_at` plus whole steps, never a slot plus a step: rounding must not give one slot two keys."""
    step = max(0, math.floor((after - start_at) / every_s))
    while start_at + step * every_s <= after:
        step += 1
    while True:
        yield start_at + step * every_s
        step += 1


def plan(schedule: Schedule, now: float, history_s: float) -> Plan:
    """Plan the slots that are due at `now`, the oldest first, at most `CHUNK`."""
    first, timing = schedule.next_at, schedule.timing
    if first is None or first > now:
        return Plan((), first)
    if first < now - history_s:
        return Plan((PlannedSlot(first, LONG_AGO, late=True),), next_slot(timing, now - history_s))
    found = [first]
    for slot in islice(slots_after(timing, first), CHUNK + MAX_CATCH_UP):
        found.append(slot)
        if slot > now:
            break
    due, beyond = [slot for slot in found if slot <= now], [slot for slot in found if slot > now]
    is_whole = bool(beyond) or len(found) <= CHUNK + MAX_CATCH_UP
    listed = due if is_whole else due[:CHUNK]
    planned = tuple(_planned(schedule, slot, len(due) - place - 1, now) for place, slot in enumerate(listed))
    if is_whole:
        return Plan(planned, beyond[0] if beyond else None)
    return Plan(planned, due[CHUNK])


def _planned(schedule: Schedule, slot: float, later: int, now: float) -> PlannedSlot:
    """Decide about one slot, after which `later` others are due."""
    late = now - slot > SKIP_AFTER_S
    return PlannedSlot(slot, _why_not(schedule, now - slot, later, late=late), late)


def _why_not(schedule: Schedule, age_s: float, later: int, *, late: bool) -> str:
    if late and schedule.missed == "skip":
        return LATE
    if later and schedule.missed != "all":
        return NEWER
    if age_s > schedule.max_age_s:
        return f"it is more than {long_span(schedule.max_age_s)} old"
    return TOO_MANY if later >= MAX_CATCH_UP else ""
