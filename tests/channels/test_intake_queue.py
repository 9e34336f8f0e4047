"""An item that waits delays its own place, and no other."""

from __future__ import annotations

from functools import partial

import anyio
import pytest
from anyio.abc import TaskGroup

from pilothouse.channels.intake_queue import IntakeQueue, Item, Job
from pilothouse.core.errors import StoreUnavailable
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

MANY = 100


class PlatformAway(Exception):
    """The error that this platform raises while it does not answer."""


class Intake:
    def __init__(self, tasks: TaskGroup) -> None:
        self.clock = FakeClock()
        self.tasks = tasks
        self.queue = IntakeQueue("test.item", self.clock, self.log, passing=(PlatformAway,))
        self.taken: list[str] = []
        self.done: list[str] = []
        self.broken: list[tuple[list[str], Exception]] = []
        """The keys that were done by then, and the error."""
        self.logged: list[tuple[str, object]] = []
        self.trouble: Exception | None = None

    def put(self, place: str, key: str, take: Job | None = None, *, overtakes: bool = False) -> None:
        take = take or partial(self.take, key)
        item = Item(take, self.broke, partial(self.finish, key), {"key": key}, overtakes=overtakes)
        self.queue.put(self.tasks, place, item)

    async def take(self, key: str) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.taken.append(key)

    async def take_slowly(self, place: str, file: anyio.Event) -> None:
        with self.queue.slow(self.tasks, place):
            await file.wait()
        self.taken.append("slow")

    async def broke(self, error: Exception) -> None:
        self.broken.append(([*self.done], error))

    async def finish(self, key: str) -> None:
        self.done.append(key)

    def log(self, event: str, **fields: object) -> None:
        self.logged.append((event, fields.get("key")))


@pytest.mark.parametrize("trouble", [PlatformAway("no answer"), StoreUnavailable("locked")])
async def test_an_item_that_waits_delays_no_other_place(trouble: Exception) -> None:
    async with anyio.create_task_group() as tasks:
        intake = Intake(tasks)
        intake.trouble = trouble
        for number in range(MANY + 1):
            intake.put(f"place {number}", f"waits {number}")
        await anyio.wait_all_tasks_blocked()
        assert intake.logged[0] == ("test.item_waits", "waits 0")
        intake.trouble = None
        intake.put("another", "goes")
        await anyio.wait_all_tasks_blocked()
        assert intake.taken == ["goes"]
        assert intake.done == ["goes"]
        await intake.clock.advance(2)
        assert len(intake.done) == MANY + 2


async def test_within_a_place_nothing_overtakes_an_item_that_waits() -> None:
    async with anyio.create_task_group() as tasks:
        intake = Intake(tasks)
        intake.trouble = PlatformAway("no answer")
        intake.put("place", "1")
        await anyio.wait_all_tasks_blocked()
        intake.trouble = None
        intake.put("place", "2", overtakes=True)
        await intake.clock.advance(2)
    assert intake.taken == ["1", "2"]
    assert intake.done == ["1", "2"]


async def test_an_item_that_breaks_is_handed_over_before_it_is_done_and_not_retried() -> None:
    async with anyio.create_task_group() as tasks:
        intake = Intake(tasks)
        intake.trouble = trouble = ValueError("broken")
        intake.put("place", "1")
        await anyio.wait_all_tasks_blocked()
        intake.trouble = None
        intake.put("place", "2")
    assert (intake.taken, intake.done) == (["2"], ["1", "2"])
    assert intake.broken == [([], trouble)]


async def test_an_item_that_hangs_delays_only_its_own_place() -> None:
    hanging = anyio.Event()
    async with anyio.create_task_group() as tasks:
        intake = Intake(tasks)
        for number in range(MANY):
            intake.put(f"place {number}", f"hangs {number}", hanging.wait)
        intake.put("place 0", "behind")
        intake.put("another", "goes")
        await anyio.wait_all_tasks_blocked()
        assert intake.done == ["goes"]
        hanging.set()
    assert intake.taken == ["goes", "behind"]


async def test_an_overtaking_item_passes_one_that_waits_for_a_file_and_nothing_else_does() -> None:
    file = anyio.Event()
    async with anyio.create_task_group() as tasks:
        intake = Intake(tasks)
        intake.put("place", "slow", partial(intake.take_slowly, "place", file))
        intake.put("place", "a message")
        intake.put("place", "queued before", overtakes=True)
        await anyio.wait_all_tasks_blocked()
        intake.put("place", "queued later", overtakes=True)
        await anyio.wait_all_tasks_blocked()
        assert intake.taken == ["queued before", "queued later"]
        file.set()
    assert intake.taken[2:] == ["slow", "a message"]
