"""The arithmetic of budgets: caps, reservations, alerts, days, and how fast somebody may send."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.budget import (
    ALERTS,
    Caps,
    CapStatus,
    Pace,
    Scope,
    alert_due,
    day_of,
    estimate,
    more_needed,
    next_day_at,
    share_of,
)
from pilothouse.core.ids import ConversationId

ALL = Scope("all")
BERLIN = ZoneInfo("Europe/Berlin")
usd = st.floats(0, 100)


def cap_status(cap: float = 10.0, **fields: Any) -> CapStatus:
    return CapStatus(ALL, "2026-11-15", cap, **fields)


def test_caps_cover_a_turn_from_the_narrowest_to_the_widest() -> None:
    here = ConversationId("memory:main")
    caps = Caps(all_usd=20, conversation_usd=5)
    assert caps.of("/w", here) == [(Scope("conversation", here), 5), (ALL, 20)]
    assert caps.any and not Caps().any and Caps().of("/w", here) == []


@given(usd, usd, usd, usd, usd)
def test_what_fits_never_takes_a_scope_past_its_limit(
    cap: float, spent: float, assumed: float, reserved: float, amount: float
) -> None:
    now = cap_status(cap, spent_usd=spent, assumed_usd=assumed, reserved_usd=reserved)
    together = spent + assumed + reserved + amount
    assert now.fits(amount) == (together <= cap + 1e-8) or together == pytest.approx(cap, abs=1e-6)


@given(usd, usd, st.floats(0.01, 100), st.none() | st.floats(0.01, 5))
def test_what_an_owner_is_asked_for_is_enough_in_whole_cents(
    spent: float, reserved: float, amount: float, step: float | None
) -> None:
    short, caps = cap_status(spent_usd=spent, reserved_usd=reserved), Caps(more_usd=step)
    more = more_needed(caps, short, amount)
    assert round(more * 100) == pytest.approx(more * 100)
    assert more >= (2.5 if step is None else step) - 1e-6
    raised = cap_status(raised_usd=more, spent_usd=spent, reserved_usd=reserved)
    assert raised.fits(amount)


def test_a_turn_is_expected_to_cost_what_its_session_did_else_its_engine_and_never_less_than_the_least() -> (
    None
):
    caps = Caps(least_usd=0.05)
    assert estimate(caps, 0.4, 0.2) == 0.4
    assert estimate(caps, None, 0.2) == 0.2
    assert estimate(caps, 0.001, 9.0) == 0.05
    assert estimate(caps, None, None) == 0.05


@given(st.lists(st.integers(0, 32).map(lambda eighths: eighths / 8), max_size=12))
def test_an_alert_is_given_once_for_each_level_and_for_the_highest_that_was_reached(
    costs: list[float],
) -> None:
    spent, alerted = 0.0, 0
    told: list[int] = []
    for cost in costs:
        spent += cost
        level = alert_due(cap_status(spent_usd=spent), alerted)
        if level is not None:
            told.append(level)
            alerted = level
    assert told == sorted(set(told)) and set(told) <= set(ALERTS)
    reached = [level for level in ALERTS if spent * 10 >= level]
    assert told[-1:] == reached[-1:]


def test_a_scope_without_a_limit_to_speak_of_is_used_up() -> None:
    assert cap_status(0.0).percent == 100


def test_a_day_is_as_the_zone_has_it_and_the_next_begins_when_the_clocks_changed_too() -> None:
    late = datetime(2026, 11, 15, 23, 30, tzinfo=UTC).timestamp()
    assert (day_of(late, UTC), day_of(late, BERLIN)) == ("2026-11-15", "2026-11-16")
    eve = datetime(2026, 10, 24, 23, 59, tzinfo=BERLIN).timestamp()
    first = next_day_at(eve, BERLIN)
    assert first - eve == 60
    assert next_day_at(first, BERLIN) - first == 25 * 3600, "the night in which an hour comes twice"


@given(st.integers(1, 30), st.lists(st.floats(0, 30), max_size=80))
def test_no_window_of_a_minute_has_more_than_twice_what_a_minute_may_have(
    per_minute: int, gaps: list[float]
) -> None:
    pace, free_at, now = Pace(per_minute), 0.0, 1000.0
    admitted: list[float] = []
    for gap in gaps:
        now += gap
        free_at, wait_s = pace.admit(free_at, now)
        assert wait_s >= 0
        if wait_s == 0:
            admitted.append(now)
        else:
            assert pace.admit(free_at, now + wait_s + 1e-6)[1] == 0, "after the time it names it passes"
    for start in admitted:
        assert sum(start <= at < start + 60 for at in admitted) <= 2 * per_minute


def test_a_minutes_worth_may_come_at_once_and_then_one_by_one() -> None:
    pace, free_at = Pace(3), 0.0
    for _ in range(3):
        free_at, wait_s = pace.admit(free_at, 100.0)
        assert wait_s == 0
    assert pace.admit(free_at, 100.0) == (free_at, pytest.approx(20.0))
    assert pace.admit(free_at, 120.0)[1] == 0


@given(st.floats(0.01, 5), st.integers(1, 12), st.floats(0.5, 100))
def test_shares_are_never_more_than_what_is_left_and_cost_nobody_a_place(
    amount: float, at_once: int, cap: float
) -> None:
    taken, running = 0.0, 0
    while running < at_once and (now := cap_status(cap, reserved_usd=taken, running=running)).fits(amount):
        share = share_of(now, amount, at_once)
        assert share >= amount
        taken, running = taken + share, running + 1
        assert taken <= cap + 1e-6
    assert running >= min(at_once, int(cap / amount - 1e-6)), (
        "as many run as would with their reservations alone"
    )


def test_the_last_that_may_run_has_all_that_is_left() -> None:
    assert share_of(cap_status(10.0, reserved_usd=4.0, running=1), 0.5, 2) == 6.0
    assert share_of(cap_status(10.0), 0.5, 1) == 10.0
