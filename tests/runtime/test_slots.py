"""Slots: strictly increasing, each planned once, and never moved by a late look."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId, ScheduleId
from pilothouse.core.schedule import DAY_S, At, Cron, Every, Missed, Schedule, Timing
from pilothouse.runtime.schedules.slots import (
    CHUNK,
    LATE,
    LONG_AGO,
    MAX_CATCH_UP,
    NEWER,
    SKIP_AFTER_S,
    TOO_MANY,
    Plan,
    PlannedSlot,
    next_slot,
    plan,
)

T0 = 1_800_000_000.0
MINUTE, HOUR, YEAR = 60.0, 3600.0, 365 * 86_400.0
HISTORY_S = 30 * DAY_S

timings = st.one_of(
    st.builds(At, st.floats(T0 - YEAR, T0 + YEAR)),
    st.builds(Every, st.floats(60, YEAR), st.floats(T0 - YEAR, T0 + YEAR)),
    st.sampled_from([Cron("*/7 * * * *"), Cron("30 2 * * *", "Europe/Berlin"), Cron("0 9 * * 1-5")]),
)


def schedule(
    timing: Timing, missed: Missed = "once", next_at: float | None = None, max_age_s: float = YEAR
) -> Schedule:
    return Schedule(ScheduleId("s"), ConversationId("c"), timing, "go", missed, next_at, max_age_s=max_age_s)


def planned(start: Schedule, looks: Iterable[float]) -> list[PlannedSlot]:
    """Every slot that is planned when somebody looks at these times, in this order."""
    slots: list[PlannedSlot] = []
    for now in looks:
        while True:
            found = plan(start, now, HISTORY_S)
            slots.extend(found.slots)
            start = msgspec.structs.replace(start, next_at=found.next_at)
            if found.next_at is None or found.next_at > now:
                break
    return slots


def runs(slots: Iterable[PlannedSlot]) -> list[float]:
    return [one.slot for one in slots if not one.skip]


@given(timings, st.floats(T0 - 2 * YEAR, T0 + 2 * YEAR))
def test_slots_strictly_increase(timing: Timing, after: float) -> None:
    for _ in range(20):
        slot = next_slot(timing, after)
        if slot is None:
            break
        assert slot > after
        after = slot


@given(st.floats(1, 100_000), st.floats(T0 - YEAR, T0), st.integers(0, 100_000), st.floats(0, 1))
def test_a_slot_is_the_same_number_however_it_was_reached(
    every_s: float, start_at: float, steps: int, part: float
) -> None:
    """A slot is known by its number, so an error in the last digit would run it twice."""
    timing = Every(every_s, start_at)
    meant = start_at + steps * every_s
    following = start_at + (steps + 1) * every_s
    assert next_slot(timing, meant) == following
    between = meant + part * (following - meant)
    assert next_slot(timing, between) == (
        following if between < following else start_at + (steps + 2) * every_s
    )


def test_an_interval_starts_with_its_start() -> None:
    assert next_slot(Every(60, T0), T0 - 0.5) == T0
    assert next_slot(Every(60, T0), T0) == T0 + 60


def test_a_single_instant_comes_once() -> None:
    assert next_slot(At(T0), T0 - 1) == T0
    assert next_slot(At(T0), T0) is None
    assert plan(schedule(At(T0), next_at=T0), T0 + HOUR, HISTORY_S) == Plan(
        (PlannedSlot(T0, late=True),), None
    )


@pytest.mark.parametrize("every_s", [0.0, -60.0, 0.5, float("nan"), float("inf")])
def test_an_interval_under_a_second_is_refused(every_s: float) -> None:
    with pytest.raises(ConfigError, match="one second"):
        Every(every_s, T0)


@given(
    timings,
    st.lists(st.floats(0, 30 * HOUR), min_size=1, max_size=8),
    st.sampled_from(["skip", "once", "all"]),
)
def test_each_slot_is_planned_once_whoever_looks_and_when(
    timing: Timing, waits: list[float], missed: Missed
) -> None:
    """A late look moves nothing: together the looks plan exactly the slots that there are."""
    looks = [T0 + sum(waits[: i + 1]) for i in range(len(waits))]
    first = next_slot(timing, T0 - HOUR)
    slots = [one.slot for one in planned(schedule(timing, missed, first), looks)]
    slot, expected = first, list[float]()
    while slot is not None and slot <= looks[-1]:
        expected.append(slot)
        slot = next_slot(timing, slot)
    assert slots == expected


def test_a_clock_set_back_repeats_nothing_and_goes_on_where_it_was() -> None:
    start = schedule(Every(600, T0), "all", T0)
    looks = [T0, T0 + 600, T0 + 600 - HOUR, T0 + 1200 - HOUR, T0 + 1200]
    assert runs(planned(start, looks)) == [T0, T0 + 600, T0 + 1200]


@given(st.integers(1, 99), st.floats(0, 59))
def test_all_runs_every_missed_slot_and_once_the_newest(missed_slots: int, late_s: float) -> None:
    newest = T0 + (missed_slots - 1) * HOUR
    every = [T0 + n * HOUR for n in range(missed_slots)]
    assert runs(planned(schedule(Every(HOUR, T0), "all", T0), [newest + late_s])) == every
    once = planned(schedule(Every(HOUR, T0), "once", T0), [newest + late_s])
    assert runs(once) == [newest]
    assert {one.skip for one in once[:-1]} <= {NEWER}


@pytest.mark.parametrize(
    ("late_s", "is_run"),
    [(0.0, True), (5.0, True), (SKIP_AFTER_S, True), (SKIP_AFTER_S + 1, False), (HOUR - 1, False)],
)
@pytest.mark.parametrize("missed_before", [0, 1, 5, 500])
def test_skip_runs_a_slot_that_is_hardly_late_and_no_other(
    missed_before: int, late_s: float, is_run: bool
) -> None:
    newest = T0 + missed_before * HOUR
    slots = planned(schedule(Every(HOUR, T0), "skip", T0), [newest + late_s])
    assert runs(slots) == ([newest] if is_run else [])
    assert {one.skip for one in slots[:-1]} <= {LATE}
    assert len(slots) == missed_before + 1


@pytest.mark.parametrize("missed_slots", [100, 101, 599, 600, 601, 602, 1300])
@pytest.mark.parametrize("timing", [Every(MINUTE, T0), Cron("* * * * *")], ids=["every", "cron"])
def test_of_too_many_missed_slots_the_newest_run(timing: Timing, missed_slots: int) -> None:
    newest = T0 + (missed_slots - 1) * MINUTE
    slots = planned(schedule(timing, "all", T0), [newest + 30])
    assert len(slots) == missed_slots
    assert runs(slots) == [newest - i * MINUTE for i in reversed(range(MAX_CATCH_UP))]
    assert {one.skip for one in slots[:-MAX_CATCH_UP]} <= {TOO_MANY}


def test_a_slot_older_than_the_maximum_age_never_runs() -> None:
    """The job of a Friday is not done on a Sunday."""
    for missed, expected in (("once", [T0 + 5 * HOUR]), ("all", [T0 + 4 * HOUR, T0 + 5 * HOUR])):
        slots = planned(schedule(Every(HOUR, T0), missed, T0, max_age_s=2 * HOUR), [T0 + 5.5 * HOUR])
        assert runs(slots) == expected
    for missed in ("skip", "once", "all"):
        assert runs(planned(schedule(At(T0), missed, T0, max_age_s=HOUR), [T0 + 2 * HOUR])) == []


def test_a_year_of_missed_minutes_is_planned_in_few_portions() -> None:
    """Slots from before the history share one row; each portion is small enough for one transaction."""
    start, now, portions = schedule(Cron("* * * * *"), "once", T0), T0 + YEAR, 0
    found = plan(start, now, DAY_S)
    assert found.slots == (PlannedSlot(T0, LONG_AGO, late=True),)
    while found.next_at is not None and found.next_at <= now:
        found = plan(msgspec.structs.replace(start, next_at=found.next_at), now, DAY_S)
        assert len(found.slots) <= CHUNK + MAX_CATCH_UP
        portions += 1
    assert portions == 3
    assert runs(found.slots) == [now]


def test_nothing_is_due_before_its_time() -> None:
    assert plan(schedule(Every(60, T0), "all", T0), T0 - 0.001, HISTORY_S) == Plan((), T0)
    assert plan(schedule(Every(60, T0), "all", None), T0 + HOUR, HISTORY_S) == Plan((), None)
