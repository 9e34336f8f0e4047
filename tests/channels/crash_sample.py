"""A sample of the crash sweep over a platform: `bench/crash --channel …` tries every point, and measures the recovery;
in the tests, others run beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.crashing.outside import count_outside, try_outside
from bench.crashing.sweep import Point, try_all

SAMPLE = 5


def check_a_sample(channel: str, folder: Path, verdict: str) -> None:
    points = _spread(count_outside(channel, folder, verdict))
    results = list(try_all(points, at_once=1, how=partial(try_outside, shared=folder)))
    assert [result for result in results if result.faults] == []
    assert any(result.killed for result in results), "two runs are never quite the same, but alike"


def _spread(points: Sequence[Point]) -> list[Point]:
    """From commits to what the platform saw, early and late."""
    step = max(1, len(points) // SAMPLE)
    return list(points[step // 2 :: step])
