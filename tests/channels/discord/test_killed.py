"""A sample of the crash sweep over Discord: a thread, a private chat and three channels, a gateway that is killed, and a
server outside that judges it all.

`bench/crash --channel discord` tries every point, and measures the recovery: here other tests run beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from bench.crashing.outside import count_outside, try_outside
from bench.crashing.sweep import Point, try_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SAMPLE = 5


def spread(points: Sequence[Point]) -> list[Point]:
    """From commits to what the platform saw, early and late."""
    step = max(1, len(points) // SAMPLE)
    return list(points[step // 2 :: step])


@pytest.mark.parametrize("verdict", ["allow", "deny"])
def test_a_kill_at_any_point_leaves_five_places_answered_and_nothing_twice_unmarked(
    tmp_path: Path, verdict: str
) -> None:
    points = spread(count_outside("discord", tmp_path, verdict))
    results = list(try_all(points, at_once=1, how=partial(try_outside, shared=tmp_path)))
    assert [result for result in results if result.faults] == []
    assert any(result.killed for result in results), "two runs are never quite the same, but alike"
