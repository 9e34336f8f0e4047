"""A call that shows progress is cancelled before it begins, and awaited once it was sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import anyio
import pytest
from anyio.abc import TaskGroup

from pilothouse.channels.skeleton import LANDS_S, ProgressCalls
from pilothouse.core.errors import TryLater
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


class Scene:
    """One call that a platform answers when told to, and a caller that can be cancelled."""

    def __init__(self, tasks: TaskGroup) -> None:
        self.clock = FakeClock()
        self.calls = ProgressCalls(tasks, self.clock)
        self.sent = anyio.Event()
        self.answered = anyio.Event()
        self.caller = anyio.CancelScope()
        self.ended = anyio.Event()
        self.results: list[str | None] = []

    async def call(self) -> str:
        self.sent.set()
        await self.answered.wait()
        return "made"

    async def make(self, *, creates: bool = False) -> None:
        with self.caller:
            self.results.append(await self.calls.make(self.call, creates=creates))
        self.ended.set()


@pytest.fixture
async def connection() -> AsyncIterator[TaskGroup]:
    async with anyio.create_task_group() as tasks:
        yield tasks
        tasks.cancel_scope.cancel()


async def test_a_cancelled_call_that_has_not_begun_is_not_made(connection: TaskGroup) -> None:
    scene = Scene(connection)
    scene.caller.cancel()
    await scene.make(creates=True)
    assert not scene.sent.is_set()


async def test_a_cancelled_call_ends_with_its_answer(connection: TaskGroup) -> None:
    scene = Scene(connection)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.make)
        await scene.sent.wait()
        scene.caller.cancel()
        await anyio.wait_all_tasks_blocked()
        assert not scene.ended.is_set()
        scene.answered.set()
        await scene.ended.wait()


async def test_a_cancelled_call_without_an_answer_ends_after_half_a_second(connection: TaskGroup) -> None:
    scene = Scene(connection)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.make)
        await scene.sent.wait()
        scene.caller.cancel()
        await scene.clock.advance(LANDS_S - 0.01)
        assert not scene.ended.is_set()
        await scene.clock.advance(0.01)
        await scene.ended.wait()


async def test_a_message_that_is_created_is_known_although_its_caller_was_cancelled(
    connection: TaskGroup,
) -> None:
    scene = Scene(connection)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(scene.make, creates=True))
        await scene.sent.wait()
        scene.caller.cancel()
        await scene.clock.advance(LANDS_S * 10)
        assert not scene.ended.is_set()
        scene.answered.set()
    assert scene.results == ["made"]


async def test_an_error_belongs_to_the_caller(connection: TaskGroup) -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await ProgressCalls(connection, FakeClock()).make(fail)
    assert not connection.cancel_scope.cancel_called


async def test_a_connection_that_is_closed_makes_no_call() -> None:
    async with anyio.create_task_group() as closed:
        pass
    scene = Scene(closed)
    with pytest.raises(TryLater):
        await scene.calls.make(scene.call)
    assert not scene.sent.is_set()
