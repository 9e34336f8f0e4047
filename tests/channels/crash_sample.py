"""A sample of the crash sweep over a platform: `bench/crash --channel …` tries every point, and measures the recovery;
in the tests, others run beside it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
from bench.crashing.outside import GATEWAY, Running, count_outside, try_outside
from bench.crashing.sweep import ROOT, Point, environment, try_all
from tests.forked import Forked

SAMPLE = 4


class ForkedGateway:
    def __init__(self, process: Forked) -> None:
        self._process = process
        self.pid = process.pid
        self.wait = process.ended

    @property
    def returncode(self) -> int | None:
        return self._process.poll()


@asynccontextmanager
async def start_forked(
    words: Sequence[str], errors: Path, packages: Sequence[str] = ()
) -> AsyncIterator[Running]:
    with errors.open("ab") as told, open(os.devnull, "r+b") as nothing:
        streams = (nothing.fileno(), nothing.fileno(), told.fileno())
        process = Forked(GATEWAY, *words, env=environment(), cwd=ROOT, streams=streams, packages=packages)
    try:
        yield ForkedGateway(process)
    finally:
        process.kill()
        with anyio.CancelScope(shield=True):
            await process.ended()


def check_a_sample(channel: str, folder: Path, verdict: str) -> None:
    start = partial(start_forked, packages=(f"channels.{channel}",))
    points = _spread(count_outside(channel, folder, verdict, start=start))
    results = list(try_all(points, at_once=1, how=partial(try_outside, shared=folder, start=start)))
    faults = [result for result in results if result.faults]
    assert faults == [], faults
    assert any(result.killed for result in results), "two runs are never quite the same, but alike"


def _spread(points: Sequence[Point]) -> list[Point]:
    """From commits to what the platform saw, early and late."""
    step = max(1, len(points) // SAMPLE)
    return list(points[step // 2 :: step])
