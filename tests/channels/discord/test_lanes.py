"""What must wait for something holds up its own lane, and no other."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import TaskGroup

from pilothouse.channels.discord.lanes import Job, Lanes
from pilothouse.channels.discord.trouble import Away
from pilothouse.core.errors import StoreUnavailable
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

MANY = 100


class House:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.taken: list[str] = []
        self.done: list[str] = []
        self.broken: list[tuple[list[str], Exception]] = []
        """What was done by then, and what broke."""
        self.trouble: Exception | None = None

    def lanes(self, tasks: TaskGroup) -> Lanes:
        return Lanes(tasks, self.clock, self.log, self.done.append)

    def put(self, lanes: Lanes, lane: str, key: str, job: Job) -> None:
        lanes.put(lane, key, job, self.broke)

    async def broke(self, error: Exception) -> None:
        self.broken.append(([*self.done], error))

    def log(self, event: str, **fields: object) -> None:
        pass

    def job(self, name: str) -> Job:
        async def take() -> None:
            if self.trouble is not None:
                raise self.trouble
            self.taken.append(name)

        return take


@pytest.mark.parametrize("trouble", [Away("no answer"), StoreUnavailable("locked")])
async def test_whoever_waits_for_something_holds_up_nobody(trouble: Exception) -> None:
    house = House()
    house.trouble = trouble
    async with anyio.create_task_group() as tasks:
        lanes = house.lanes(tasks)
        for number in range(MANY + 1):
            house.put(lanes, f"lane {number}", f"waits {number}", house.job("waits"))
        await anyio.wait_all_tasks_blocked()
        house.trouble = None
        house.put(lanes, "another", "goes", house.job("goes"))
        await anyio.wait_all_tasks_blocked()
        assert house.taken == ["goes"]
        assert house.done == ["goes"]
        await house.clock.advance(2)
        assert len(house.done) == MANY + 2


async def test_within_a_lane_nobody_overtakes_who_waits() -> None:
    house = House()
    house.trouble = Away("no answer")
    async with anyio.create_task_group() as tasks:
        lanes = house.lanes(tasks)
        house.put(lanes, "lane", "1", house.job("first"))
        await anyio.wait_all_tasks_blocked()
        house.trouble = None
        house.put(lanes, "lane", "2", house.job("second"))
        await house.clock.advance(2)
    assert house.taken == ["first", "second"]
    assert house.done == ["1", "2"]


async def test_what_breaks_is_handed_over_before_it_is_done_and_not_tried_again() -> None:
    house = House()
    house.trouble = trouble = ValueError("broken")
    async with anyio.create_task_group() as tasks:
        lanes = house.lanes(tasks)
        house.put(lanes, "lane", "1", house.job("first"))
        await anyio.wait_all_tasks_blocked()
        house.trouble = None
        house.put(lanes, "lane", "2", house.job("second"))
    assert (house.taken, house.done) == (["second"], ["1", "2"])
    assert house.broken == [([], trouble)]


async def test_what_hangs_holds_up_its_own_lane_alone() -> None:
    house, hanging = House(), anyio.Event()
    async with anyio.create_task_group() as tasks:
        lanes = house.lanes(tasks)
        for number in range(MANY):
            house.put(lanes, f"lane {number}", f"hangs {number}", hanging.wait)
        house.put(lanes, "lane 0", "behind", house.job("behind"))
        house.put(lanes, "another", "goes", house.job("goes"))
        await anyio.wait_all_tasks_blocked()
        assert house.done == ["goes"]
        hanging.set()
    assert house.taken == ["goes", "behind"]
