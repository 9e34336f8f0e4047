"""The fake clock: other tests are only as good as it is."""

import anyio
import pytest

from pilothouse.testing.clock import CountedIds, FakeClock

pytestmark = pytest.mark.anyio


class Sleepers:
    """Who woke, and when."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.woken: list[tuple[str, float]] = []

    async def sleep(self, name: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self.woken.append((name, self._clock.monotonic()))


async def test_sleepers_wake_in_order_each_at_its_own_time() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)
    async with anyio.create_task_group() as group:
        for name, seconds in [("late", 3.0), ("early", 1.0), ("also early", 1.0), ("middle", 2.5)]:
            group.start_soon(sleepers.sleep, name, seconds)
        await clock.advance(10)
    assert sleepers.woken == [("early", 1.0), ("also early", 1.0), ("middle", 2.5), ("late", 3.0)]
    assert clock.monotonic() == 10


async def test_a_sleeper_is_woken_at_its_time_and_not_before() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)
    async with anyio.create_task_group() as group:
        group.start_soon(sleepers.sleep, "it", 5.0)
        await clock.advance(4.999)
        assert sleepers.woken == []
        await clock.advance(0.001)
        assert [name for name, _ in sleepers.woken] == ["it"]


async def test_a_task_started_just_before_time_passes_sleeps_from_then() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)
    async with anyio.create_task_group() as group:
        group.start_soon(sleepers.sleep, "it", 1.0)
        await clock.advance(1.0)
        assert sleepers.woken == [("it", 1.0)]


async def test_one_who_sleeps_again_is_woken_again_within_the_same_advance() -> None:
    clock = FakeClock()
    beats: list[float] = []

    async def beat() -> None:
        while len(beats) < 3:
            await clock.sleep(2)
            beats.append(clock.monotonic())

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        await clock.advance(7)
    assert beats == [2, 4, 6]


async def test_a_jump_moves_the_wall_alone_and_wakes_nobody() -> None:
    clock = FakeClock(1000.0)
    sleepers = Sleepers(clock)
    async with anyio.create_task_group() as group:
        group.start_soon(sleepers.sleep, "it", 5.0)
        await clock.advance(1)
        clock.jump(3600)
        await anyio.wait_all_tasks_blocked()
        assert (clock.now(), clock.monotonic(), sleepers.woken) == (4601.0, 1.0, [])
        clock.jump(-7200)
        await clock.advance(4)
    assert sleepers.woken == [("it", 5.0)]
    assert clock.now() == 1000.0 + 5 - 3600


async def test_no_sleep_at_all_returns_at_once_but_lets_others_run() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)
    async with anyio.create_task_group() as group:
        group.start_soon(sleepers.sleep, "other", 0)
        await clock.sleep(0)
        await clock.sleep(-1)
    assert sleepers.woken == [("other", 0.0)]


async def test_a_cancelled_sleeper_disturbs_nobody() -> None:
    clock = FakeClock()
    sleepers = Sleepers(clock)
    async with anyio.create_task_group() as group:
        with anyio.move_on_after(0):
            await clock.sleep(1)
        group.start_soon(sleepers.sleep, "it", 2.0)
        await clock.advance(2)
    assert sleepers.woken == [("it", 2.0)]


async def test_time_does_not_pass_backwards() -> None:
    with pytest.raises(ValueError, match="jump"):
        await FakeClock().advance(-1)


async def test_counted_ids_can_be_foretold() -> None:
    ids = CountedIds()
    assert [ids("turn"), ids("ask"), ids("turn")] == ["turn-1", "ask-1", "turn-2"]
