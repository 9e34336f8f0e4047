"""The programs of a lane: their limits, and what is left of one that is stopped."""

from __future__ import annotations

import os

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pilothouse.lanes.lane import LaneError
from pilothouse.lanes.programs import run

pytestmark = pytest.mark.anyio


async def test_a_program_that_takes_too_long_is_named_with_its_limit() -> None:
    with pytest.raises(LaneError, match=r"`sh -c` did not end within 0.01 s"):
        await run(["sh", "-c", "kill -STOP $$"], within_s=0.01)


@pytest.mark.parametrize("steps", range(20))
async def test_a_program_that_is_cancelled_at_any_step_of_its_start_leaves_nothing_open(steps: int) -> None:
    before = set(os.listdir("/proc/self/fd"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, ["sleep", "60"])
        for _ in range(steps):
            await checkpoint()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(60):
        while set(os.listdir("/proc/self/fd")) - before:
            await checkpoint()
