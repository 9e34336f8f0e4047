"""A sample of the crash sweep: the first and the last points, a spread between, and all around the ask.

`bench/crash` tries every point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from bench.crashing.report import SLOWEST_RECOVERY_S, sum_up
from bench.crashing.sweep import Point, count_points, try_all

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SPREAD = 3
BESIDE_OTHERS = 4
"""Other tests run beside this one; the figure itself is `bench/crash`'s."""


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
    assert sum_up(results).recovery_max_s < SLOWEST_RECOVERY_S * BESIDE_OTHERS
