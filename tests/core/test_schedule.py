"""Slots: strictly increasing, each once, and never moved by whoever looks late."""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId, ScheduleId
from pilothouse.core.schedule import (
    MAX_CATCH_UP,
    SKIP_AFTER_S,
    At,
    Cron,
    Due,
    Every,
    Missed,
    Schedule,
    Timing,
    due,
    next_slot,
)

T0 = 1_800_000_000.0
MINUTE, HOUR, YEAR = 60.0, 3600.0, 365 * 86_400.0


def ticks(cron: Cron, after: float) -> float | None:
    """A cron of sorts: the expression is a distance in seconds, and slots are its multiples up to the last."""
    step, _, last = cron.expression.partition(" until ")
    slot = (after // float(step) + 1) * float(step)
    return slot if not last or slot <= float(last) else None


timings = st.one_of(
    st.builds(At, st.floats(T0 - YEAR, T0 + YEAR)),
    st.builds(Every, st.floats(1, YEAR), st.floats(T0 - YEAR, T0 + YEAR)),
    st.builds(Cron, st.integers(1, 100_000).map(str)),
)


def schedule(timing: Timing, missed: Missed = "once", next_at: float | None = None) -> Schedule:
    return Schedule(ScheduleId("s"), ConversationId("c"), timing, "go", missed, next_at)


def noticed(start: Schedule, looks: Iterable[float]) -> list[float]:
    """Every slot that runs when somebody looks at these times, in this order."""
    slots: list[float] = []
    for now in looks:
        found = due(start, now, ticks)
        slots.extend(found.slots)
        start = msgspec.structs.replace(start, next_at=found.next_at)
    return slots


@given(timings, st.floats(T0 - 2 * YEAR, T0 + 2 * YEAR))
def test_slots_strictly_increase(timing: Timing, after: float) -> None:
    for _ in range(20):
        slot = next_slot(timing, after, ticks)
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
    assert next_slot(timing, meant, ticks) == following
    between = meant + part * (following - meant)
    assert next_slot(timing, between, ticks) == (
        following if between < following else start_at + (steps + 2) * every_s
    )


def test_an_interval_starts_with_its_start() -> None:
    assert next_slot(Every(60, T0), T0 - 0.5, ticks) == T0
    assert next_slot(Every(60, T0), T0, ticks) == T0 + 60


def test_a_single_instant_comes_once() -> None:
    assert next_slot(At(T0), T0 - 1, ticks) == T0
    assert next_slot(At(T0), T0, ticks) is None
    assert due(schedule(At(T0), next_at=T0), T0 + HOUR, ticks) == Due((T0,), None)


@pytest.mark.parametrize("every_s", [0.0, -60.0, 0.5, float("nan"), float("inf")])
def test_an_interval_under_a_second_is_refused(every_s: float) -> None:
    with pytest.raises(ConfigError, match="one second"):
        Every(every_s, T0)


@given(timings, st.floats(0, 30 * HOUR), st.sampled_from(["skip", "once", "all"]))
def test_a_late_look_moves_nothing(timing: Timing, late_s: float, missed: Missed) -> None:
    """Whenever it is noticed, the next slot is the one that was always meant to follow."""
    first = next_slot(timing, T0, ticks)
    if first is None:
        return
    now = first + late_s
    found = due(schedule(timing, missed, first), now, ticks)
    assert found.next_at == next_slot(timing, now, ticks)
    assert all(first <= slot <= now for slot in found.slots)


@given(timings, st.lists(st.floats(0, 4 * HOUR), max_size=30))
def test_each_slot_runs_once_whoever_looks_and_when(timing: Timing, waits: list[float]) -> None:
    looks = [T0 + sum(waits[:i]) for i in range(len(waits))]
    slots = noticed(schedule(timing, "all", next_slot(timing, T0 - HOUR, ticks)), looks)
    assert slots == sorted(set(slots))


@given(timings, st.lists(st.sampled_from([1.0, 30.0, 600.0, HOUR, -HOUR]), max_size=40))
def test_a_clock_that_jumps_an_hour_runs_no_slot_twice(timing: Timing, moves: list[float]) -> None:
    looks = [T0 + sum(moves[:i]) for i in range(len(moves))]
    for missed in ("skip", "once", "all"):
        slots = noticed(schedule(timing, missed, next_slot(timing, T0 - HOUR, ticks)), looks)
        assert slots == sorted(set(slots))


def test_a_clock_set_back_repeats_nothing_and_goes_on_where_it_was() -> None:
    start = schedule(Every(600, T0), "all", T0)
    assert noticed(start, [T0, T0 + 600, T0 + 600 - HOUR, T0 + 1200 - HOUR, T0 + 1200]) == [
        T0,
        T0 + 600,
        T0 + 1200,
    ]


@given(st.integers(1, 99), st.floats(0, 59))
def test_all_runs_every_missed_slot_and_once_the_newest(missed_slots: int, late_s: float) -> None:
    now = T0 + (missed_slots - 1) * MINUTE + late_s
    slots = tuple(T0 + i * MINUTE for i in range(missed_slots))
    following = T0 + missed_slots * MINUTE
    assert due(schedule(Every(MINUTE, T0), "all", T0), now, ticks) == Due(slots, following)
    assert due(schedule(Every(MINUTE, T0), "once", T0), now, ticks) == Due(slots[-1:], following)


@pytest.mark.parametrize(
    ("late_s", "runs"),
    [(0.0, True), (5.0, True), (SKIP_AFTER_S, True), (SKIP_AFTER_S + 1, False), (HOUR - 1, False)],
)
@pytest.mark.parametrize("missed_before", [0, 1, 5, 500])
def test_skip_runs_a_slot_that_is_hardly_late_and_no_other(
    missed_before: int, late_s: float, runs: bool
) -> None:
    newest = T0 + missed_before * HOUR
    found = due(schedule(Every(HOUR, T0), "skip", T0), newest + late_s, ticks)
    assert found == Due((newest,) if runs else (), newest + HOUR)


@pytest.mark.parametrize("missed_slots", [100, 101, 102, 150, 200, 201, 525_600])
@pytest.mark.parametrize("timing", [Every(MINUTE, T0), Cron("60")], ids=["every", "cron"])
def test_of_too_many_missed_slots_the_newest_run(timing: Timing, missed_slots: int) -> None:
    newest = T0 + (missed_slots - 1) * MINUTE
    found = due(schedule(timing, "all", T0), newest + 30, ticks)
    assert found.slots == tuple(newest - i * MINUTE for i in reversed(range(MAX_CATCH_UP)))
    assert found.next_at == newest + MINUTE
    assert due(schedule(timing, "once", T0), newest + 30, ticks).slots == (newest,)


def test_a_year_of_missed_minutes_is_passed_over_in_few_steps() -> None:
    steps = 0

    def counted(cron: Cron, after: float) -> float | None:
        nonlocal steps
        steps += 1
        return ticks(cron, after)

    due(schedule(Cron("60"), "once", T0), T0 + YEAR, counted)
    assert steps < 5_000


def test_a_schedule_that_has_run_out_ends() -> None:
    timing = Cron(f"60 until {T0 + 120}")
    assert due(schedule(timing, "all", T0), T0 + HOUR, ticks) == Due((T0, T0 + 60, T0 + 120), None)
    assert due(schedule(timing, "all", None), T0 + HOUR, ticks) == Due((), None)


def test_nothing_is_due_before_its_time() -> None:
    assert due(schedule(Every(60, T0), "all", T0), T0 - 0.001, ticks) == Due((), T0)
