"""The journal: an event is on the disk before it is taken, and removed afterwards."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from pilothouse.channels.discord.journal import AGAIN_S, REWRITE_AFTER, Incoming, Numbered
from pilothouse.channels.discord.wire import Event
from pilothouse.channels.intake_queue import Journal
from pilothouse.core.errors import StoreUnavailable
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


def event(number: int, name: str = "MESSAGE_CREATE") -> Event:
    return Event(name, {"id": str(number), "channel_id": "1"})


class House:
    def __init__(self, path: Path, clock: FakeClock | None = None) -> None:
        self.path = path
        self.logged: list[str] = []
        self.passed: list[Numbered] = []
        self.kept_when_passed: list[bytes] = []
        self.locked = False
        self.settled_first = False
        self.incoming = Incoming(
            path,
            self.log,
            is_work=self.is_work,
            pass_on=self.pass_on,
            settle=self.settle,
            sleep=(clock or FakeClock()).sleep,
        )

    def log(self, event: str, **fields: object) -> None:
        self.logged.append(event)

    async def is_work(self, event: Event) -> bool:
        if self.locked:
            raise StoreUnavailable("locked")
        return event.name == "MESSAGE_CREATE"

    async def settle(self) -> None:
        self.settled_first = self.settled_first or self.path.exists()

    def pass_on(self, one: Numbered) -> None:
        self.passed.append(one)
        self.kept_when_passed.append(self.path.read_bytes() if self.path.exists() else b"")

    async def until(self, count: int) -> None:
        with anyio.fail_after(60):
            while len(self.passed) < count:
                await anyio.sleep(0.005)


async def test_work_is_kept_before_it_is_passed_on_and_dropped_once_it_is_done(tmp_path: Path) -> None:
    house = House(tmp_path / "events.jsonl")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.incoming.run)
        house.incoming.feed([event(1), event(2, "TYPING"), event(3)])
        await house.until(3)
        assert all(b'"id":"1"' in kept and b'"id":"3"' in kept for kept in house.kept_when_passed)
        assert all(b"TYPING" not in kept for kept in house.kept_when_passed)
        for one in house.passed:
            house.incoming.done(one.key)
        with anyio.fail_after(60):
            while house.path.exists():
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()
    assert [one.event.data["id"] for one in house.passed] == ["1", "2", "3"]
    assert house.settled_first


async def test_what_was_not_done_is_there_again_after_a_restart_until_it_is(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    house = House(path)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.incoming.run)
        house.incoming.feed([event(1), event(2)])
        await house.until(2)
        house.incoming.done(house.passed[0].key)
        tasks.cancel_scope.cancel()
    with path.open("ab") as torn:
        torn.write(b'{"name":"MESSAGE_CREATE","da')
    again = House(path)
    left = await again.incoming.left_over()
    assert [one.event.data["id"] for one in left] == ["1", "2"]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(again.incoming.run)
        await anyio.wait_all_tasks_blocked()
        assert path.exists()
        for one in left:
            again.incoming.done(one.key)
        with anyio.fail_after(60):
            while path.exists():
                await anyio.sleep(0.005)
        tasks.cancel_scope.cancel()


async def test_while_the_store_is_locked_everything_is_kept(tmp_path: Path) -> None:
    house = House(tmp_path / "events.jsonl")
    house.locked = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.incoming.run)
        house.incoming.hear(event(1, "MESSAGE_UPDATE"))
        await house.until(1)
        assert b"MESSAGE_UPDATE" in house.kept_when_passed[0]
        tasks.cancel_scope.cancel()


async def test_the_file_does_not_grow_while_one_of_many_is_never_done(tmp_path: Path) -> None:
    house = House(tmp_path / "events.jsonl")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.incoming.run)
        house.incoming.hear(event(0))
        await house.until(1)
        for number in range(1, REWRITE_AFTER + 200, 100):
            before = len(house.passed)
            house.incoming.feed([event(number + n) for n in range(100)])
            await house.until(before + 100)
            for one in house.passed[before:]:
                house.incoming.done(one.key)
        tasks.cancel_scope.cancel()
    kept = await Journal(house.path).read()
    assert len(kept) < REWRITE_AFTER
    assert b'"id":"0"' in kept[0]


async def test_a_disk_that_takes_nothing_is_waited_for(tmp_path: Path) -> None:
    clock = FakeClock()
    house = House(tmp_path / "folder" / "events.jsonl", clock)
    (tmp_path / "folder").write_text("in the way")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(house.incoming.run)
        house.incoming.hear(event(1))
        with anyio.fail_after(60):
            while "discord.journal_not_written" not in house.logged:
                await anyio.sleep(0.005)
        assert house.passed == []
        (tmp_path / "folder").unlink()
        await clock.advance(AGAIN_S)
        await house.until(1)
        tasks.cancel_scope.cancel()
    assert b'"id":"1"' in house.kept_when_passed[0]
