"""Cron over the two nights of the year on which a day has not twenty-four hours."""

from datetime import UTC, datetime
from itertools import islice, pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.cron_oracle import ZONES, random_cron, slots_of_year

from pilothouse.core.errors import ConfigError
from pilothouse.core.schedule import Cron
from pilothouse.runtime.schedules.cron import cron_slots

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def first_slot(cron: Cron, after: float) -> float | None:
    return next(cron_slots(cron, after), None)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def steps(expression: str, zone: str, after: str, until: str) -> list[str]:
    """Every slot after the one instant and up to the other, as the zone's own clocks show it."""
    slots: list[str] = []
    slot = first_slot(Cron(expression, zone), at(after))
    while slot is not None and slot <= at(until):
        slots.append(
            datetime.fromtimestamp(slot, UTC).astimezone(ZoneInfo(zone)).isoformat(timespec="minutes")
        )
        slot = first_slot(Cron(expression, zone), slot)
    return slots


SPRING_NIGHT = {
    BERLIN: ("2026-03-29T01:20+01:00", "2026-03-29T05:00+02:00"),
    NEW_YORK: ("2026-03-08T01:20-05:00", "2026-03-08T05:00-04:00"),
}
AUTUMN_NIGHT = {
    BERLIN: ("2026-10-25T00:50+02:00", "2026-10-25T03:40+01:00"),
    NEW_YORK: ("2026-11-01T00:20-04:00", "2026-11-01T03:10-05:00"),
}


@pytest.mark.parametrize(
    ("zone", "expected"),
    [(BERLIN, ["2026-03-29T03:00+02:00"]), (NEW_YORK, ["2026-03-08T03:00-04:00"])],
)
def test_a_job_in_the_skipped_hour_runs_once_after_the_gap(zone: str, expected: list[str]) -> None:
    assert steps("30 2 * * *", zone, *SPRING_NIGHT[zone]) == expected


@pytest.mark.parametrize(
    ("zone", "expression", "expected"),
    [
        (BERLIN, "30 2 * * *", ["2026-10-25T02:30+02:00"]),
        (NEW_YORK, "30 1 * * *", ["2026-11-01T01:30-04:00"]),
        (BERLIN, "30 1 * * *", ["2026-10-25T01:30+02:00"]),
        (NEW_YORK, "30 2 * * *", ["2026-11-01T02:30-05:00"]),
    ],
)
def test_a_job_in_the_repeated_hour_runs_in_the_first_of_the_two(
    zone: str, expression: str, expected: list[str]
) -> None:
    assert steps(expression, zone, *AUTUMN_NIGHT[zone]) == expected


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK])
@pytest.mark.parametrize("night", [SPRING_NIGHT, AUTUMN_NIGHT], ids=["spring", "autumn"])
def test_a_job_every_quarter_of_an_hour_keeps_to_real_time(
    night: dict[str, tuple[str, str]], zone: str
) -> None:
    slots = steps("*/15 * * * *", zone, *night[zone])
    assert len(slots) >= 10
    assert {at(later) - at(earlier) for earlier, later in pairwise(slots)} == {900.0}


@pytest.mark.parametrize(
    ("zone", "after", "until", "expected"),
    [
        (
            BERLIN,
            "2026-03-27T12:00+01:00",
            "2026-03-31T12:00+02:00",
            ["2026-03-30T09:00+02:00", "2026-03-31T09:00+02:00"],
        ),
        (
            BERLIN,
            "2026-10-23T12:00+02:00",
            "2026-10-27T12:00+01:00",
            ["2026-10-26T09:00+01:00", "2026-10-27T09:00+01:00"],
        ),
        (NEW_YORK, "2026-03-06T12:00-05:00", "2026-03-09T12:00-04:00", ["2026-03-09T09:00-04:00"]),
        (NEW_YORK, "2026-10-30T12:00-04:00", "2026-11-02T12:00-05:00", ["2026-11-02T09:00-05:00"]),
    ],
)
def test_nine_on_a_working_day_is_nine_on_the_wall_and_no_weekend(
    zone: str, after: str, until: str, expected: list[str]
) -> None:
    assert steps("0 9 * * 1-5", zone, after, until) == expected


def test_looking_from_within_the_second_of_two_equal_hours_names_no_past_slot() -> None:
    """The slot is over: it was in the first of the two hours."""
    slot = first_slot(Cron("30 2 * * *", BERLIN), at("2026-10-25T02:10+01:00"))
    assert slot == at("2026-10-26T02:30+01:00")


expressions = st.sampled_from(
    [
        "30 2 * * *",
        "0-59 2 * * *",
        "0,30 1,2,3 * * *",
        "*/15 * * * *",
        "5 */2 * * *",
        "@hourly",
        "@daily",
        "0 3 * * 0",
    ]
)
nights = st.sampled_from([at(start) for night in (SPRING_NIGHT, AUTUMN_NIGHT) for start, _ in night.values()])


@given(expressions, st.sampled_from([BERLIN, NEW_YORK, "UTC"]), nights, st.floats(-86_400, 86_400))
def test_a_step_always_leads_forwards_and_no_slot_depends_on_when_one_looked(
    expression: str, zone: str, night: float, offset_s: float
) -> None:
    cron, after = Cron(expression, zone), night + offset_s
    slot = first_slot(cron, after)
    assert slot is not None
    assert slot > after
    assert first_slot(cron, (after + slot) / 2) == slot


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("@hourly", "2026-11-14T11:00+01:00"),
        ("@daily", "2026-11-15T00:00+01:00"),
        ("@midnight", "2026-11-15T00:00+01:00"),
        ("@weekly", "2026-11-15T00:00+01:00"),
        ("@monthly", "2026-12-01T00:00+01:00"),
        ("@yearly", "2027-01-01T00:00+01:00"),
        ("@annually", "2027-01-01T00:00+01:00"),
        (" @Daily ", "2026-11-15T00:00+01:00"),
    ],
)
def test_the_usual_names_mean_what_they_mean_in_cron(name: str, expected: str) -> None:
    assert first_slot(Cron(name, BERLIN), at("2026-11-14T10:30+01:00")) == at(expected)


def test_a_leap_day_waits_for_its_year() -> None:
    assert first_slot(Cron("0 0 29 2 *"), at("2026-01-01T00:00Z")) == at("2028-02-29T00:00Z")


@pytest.mark.parametrize("expression", ["0 0 1 1 1#5", "0 0 * 2 1#5"])
def test_a_day_that_is_rare_is_still_found(expression: str) -> None:
    assert first_slot(Cron(expression), at("2026-01-01T00:00Z")) is not None


@pytest.mark.parametrize("after", [253_402_300_000.0, 1e12, 1e20])
def test_beyond_the_calendar_there_is_no_slot(after: float) -> None:
    assert first_slot(Cron("@daily"), after) is None


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "soon",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 31 2 *",
        "0 9 * * 5-1",
        "*/0 * * * *",
        "@reboot",
        "*/" + "9" * 5000 + " * * * *",
    ],
    ids=lambda expression: repr(expression)[:20],
)
def test_a_bad_expression_is_refused_by_name(expression: str) -> None:
    with pytest.raises(ConfigError, match="is not a cron expression") as error:
        first_slot(Cron(expression), 0.0)
    assert repr(expression)[1:10] in str(error.value)


@pytest.mark.parametrize(
    "zone", ["", "Berlin", "Europe", "europe/nowhere", "../etc/passwd", "Europe/Berlin ", "\0"]
)
def test_a_bad_zone_is_refused_by_name(zone: str) -> None:
    with pytest.raises(ConfigError, match="unknown time zone"):
        first_slot(Cron("@daily", zone), 0.0)


def test_a_year_of_random_expressions_is_what_an_independent_oracle_says() -> None:
    """`bench/schedules` does the same with 200 expressions, however often they come due."""
    random, tried = Random(7), 0
    while tried < 6:
        meant = random_cron(random)
        if len(meant.minutes) * len(meant.hours) > 6:
            continue
        tried += 1
        for zone in ZONES:
            expected = slots_of_year(meant, zone, 2026)
            first = datetime(2026, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() - 1
            found = list(islice(cron_slots(Cron(meant.text, zone), first), len(expected)))
            assert found == expected, (meant.text, zone)
