"""A sample of the crash sweep: the first and the last points, a spread between, and all around the ask.

`bench/crash` tries every point, and measures the recovery: here other tests run beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from bench.crashing.sweep import Point, count_points, try_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SPREAD = 3


def spread(points: Sequence[Point]) -> list[Point]:
    step = max(1, len(points) // SPREAD)
    return [points[0], points[1], *points[step // 2 :: step], points[-1]]


def around_the_ask(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.near_ask]


@pytest.mark.parametrize(
    ("verdict", "sample"), [("allow", spread), ("allow", around_the_ask), ("deny", around_the_ask)]
)
def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(
    verdict: str, sample: Callable[[Sequence[Point]], list[Point]]
) -> None:
    results = list(try_all(sample(count_points(verdict)), at_once=1))
    assert [result for result in results if result.faults] == []
