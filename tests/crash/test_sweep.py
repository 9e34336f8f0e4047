"""A sample of the crash sweep: the first and the last points, a spread between, and those around the ask.

`bench/crash` tries every point, and measures the recovery: here other tests run beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import pytest
from bench.crashing.house import CHOSEN, JAILED, PATIENCE, TOOLS
from bench.crashing.sweep import ROOT, SCENARIO, Point, count_points, environment, try_all, try_in, try_point
from tests.forked import run
from tests.isolation.canary import need_jail

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SPREAD = 3


def spread(points: Sequence[Point]) -> list[Point]:
    step = max(1, len(points) // SPREAD)
    return [points[0], *points[step // 2 :: step], points[-1]]


def around_the_ask(points: Sequence[Point]) -> list[Point]:
    return [point for point in points if point.near_ask]


def run_forked(words: Sequence[str], limit_s: float, more: Mapping[str, str] = {}) -> tuple[int, str]:
    done = run(SCENARIO, *words, env={**environment(), **more}, cwd=ROOT, within_s=limit_s)
    return done.returncode, done.stderr[-2000:]


@pytest.mark.parametrize("verdict", ["allow", "deny"])
def test_a_kill_at_any_point_loses_nothing_and_doubles_nothing(verdict: str) -> None:
    """Around the ask, each verdict takes every other point, and both together all of them."""
    points = count_points(verdict, run=run_forked)
    is_allowed = verdict == "allow"
    sample = [*spread(points), *around_the_ask(points)[::2]] if is_allowed else around_the_ask(points)[1::2]
    results = list(try_all(dict.fromkeys(sample), at_once=1, how=partial(try_in, run=run_forked)))
    assert [result for result in results if result.faults] == []


def test_a_kill_beside_tools_a_question_a_schedule_and_another_agent_loses_nothing() -> None:
    run_with_tools = partial(run_forked, more={TOOLS: "1", PATIENCE: "2.5"})  # the MCP SDK is imported
    points = count_points("allow", run=run_with_tools)
    result = try_point(points[len(points) * 2 // 5], how=partial(try_in, run=run_with_tools))
    assert not result.faults


def test_a_kill_beside_the_native_agent_loses_nothing() -> None:
    """One point around the ask, and one in the middle."""
    run_native = partial(run_forked, more={CHOSEN: "native", PATIENCE: "2.5"})
    points = count_points("allow", run=run_native)
    for point in (around_the_ask(points)[1], points[len(points) // 2]):
        assert not try_point(point, how=partial(try_in, run=run_native)).faults


def test_a_kill_while_the_engine_runs_in_a_jail_loses_nothing_and_leaves_nothing() -> None:
    need_jail()
    run_jailed = partial(run_forked, more={JAILED: "1", PATIENCE: "2.5"})
    points = count_points("allow", run=run_jailed)
    sample = dict.fromkeys([points[len(points) // 3], *around_the_ask(points)[1:2]])
    results = list(try_all(sample, at_once=1, how=partial(try_in, run=run_jailed)))
    assert [result for result in results if result.faults] == []
