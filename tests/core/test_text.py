"""Times, spans and sums as people read them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.outcome import Usage
from pilothouse.core.text import format_cost, format_duration, format_long, moment, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (86_400, "1d"),
        (9e5, "10d"),
    ],
)
def test_a_span_is_told_in_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


@given(st.floats(0, 1e7))
def test_both_ways_to_tell_a_span_begin_alike_below_an_hour(seconds: float) -> None:
    if seconds < 3600:
        assert format_duration(seconds).split()[0] == span(seconds)


def test_small_sums_keep_four_digits_and_large_ones_two() -> None:
    shown = [format_cost(Usage(usd)) for usd in (0, 0.0234, 1, 12.345)]
    assert shown == ["$0.0000", "$0.0234", "$1.00", "$12.35"]
    assert format_cost(Usage(0.5, estimated=True)) == "≈$0.5000"
    assert (format_cost(None), format_cost(Usage())) == ("", "")


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (1_700_000_000, "at 22:13"),
        (1_700_000_000 + 6000, "at 22:13"),
        (1_700_000_000 + 7200, "at 22:13 on 14 Nov"),
        (1_700_000_000 + 86_400, "at 22:13 on 14 Nov"),
    ],
)
def test_a_moment_is_told_with_its_day_once_that_is_over(now: float, text: str) -> None:
    assert moment(1_700_000_000, now, UTC) == text


def test_a_moment_is_told_in_the_zone_of_the_machine() -> None:
    code = "from pilothouse.core.text import moment; print(moment(1_700_000_000, 1_700_000_000))"
    for zone, text in (("UTC", "at 22:13"), ("JST-9", "at 07:13")):
        environ = {**os.environ, "TZ": zone}
        said = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
        )
        assert said.stdout.strip() == text


def test_a_long_duration_is_told_in_words() -> None:
    told = [format_long(seconds) for seconds in (0, 1, 90, 120, 2355, 3600, 7200, 90_000)]
    assert told == [
        "1 second",
        "1 second",
        "90 seconds",
        "2 minutes",
        "39 minutes",
        "60 minutes",
        "2 hours",
        "25 hours",
    ]
