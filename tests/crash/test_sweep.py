"""A sample of the crash sweep: the first and the last points, a spread between, and all around the ask.

`bench/crash` tries every point.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from bench.crashing.report import SLOWEST_RECOVERY_S, sum_up
from bench.crashing.sweep import Point, count_points, try_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SPREAD = 4


def sample(points: Sequence[Point]) -> list[Point]:
    step = max(1, len(points) // SPREAD)
    spread = {points[0], points[1], *points[step // 2 :: step], points[-1]}
    return sorted(spread.union(point for point in points if point.near_ask), key=lambda p: p.number)


@pytest.mark.parametrize("verdict", ["allow", "deny"])
def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(verdict: str) -> None:
    results = list(try_all(sample(count_points(verdict))))
    assert [result for result in results if result.faults] == []
    assert sum_up(results).recovery_max_s < SLOWEST_RECOVERY_S
