"""Threads that came and slept while we were away are found: private ones, too, and whenever we come back."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import anyio
import pytest
from anyio.abc import TaskGroup
from simcord.backend.models import Channel
from tests.channels.discord.line import Ahead, Line, address_of, open_line
from tests.channels.discord.server.faults import ARCHIVED, ARCHIVED_JOINED, ARCHIVED_PRIVATE
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.channels.discord.test_catching_up import hear_one

from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.catching_up import CatchingUp
from pilothouse.channels.discord.config import Heard
from pilothouse.channels.discord.marks import Marks
from pilothouse.channels.discord.posting import MESSAGES
from pilothouse.channels.discord.searching import PUBLIC
from pilothouse.channels.discord.wire import Channel as Told
from pilothouse.channels.discord.wire import Event, Guild
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

ASLEEP = {
    "id": "9",
    "type": 11,
    "parent_id": "7",
    "last_message_id": "10",
    "thread_metadata": {"archive_timestamp": "2100-01-01T00:00:00+00:00"},
}


def opened_and_archived(server: Server, by: Person, text: str, *, private: bool = False) -> Channel:
    thread = by.make_thread(text, private=private)
    by.say(text, channel=thread)
    server.world.archive(thread)
    return thread


async def test_a_clock_that_is_ahead_hides_nothing_that_was_opened_while_we_were_away(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    await hear_one(server, tmp_path, clock=Ahead(600))
    channel = server.world.make_channel("new")
    ada.say("in a new channel", channel=channel)
    opened_and_archived(server, ada, "in a thread that sleeps")
    async with open_line(server, tmp_path, clock=Ahead(600)) as line:
        await line.until(lambda: len(line.texts) == 2)
        await line.rest()
    assert sorted(line.texts) == ["in a new channel", "in a thread that sleeps"]


async def until_heard(line: Line, by: Person, text: str) -> None:
    """Whoever said it is heard, and so is all that was told before it."""
    by.say(text)
    await line.until(lambda: text in line.texts)


async def test_a_private_thread_that_was_opened_and_archived_while_we_were_away_is_found(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    opened_and_archived(server, ada, "before we came", private=True)
    await hear_one(server, tmp_path)
    thread = opened_and_archived(server, ada, "in private", private=True)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts)
        await line.rest()
    assert line.texts == ["in private"]
    assert line.desk.accepted[0].address == address_of(thread)


async def test_who_may_not_manage_threads_finds_the_private_ones_that_it_is_in(
    server: Server, tmp_path: Path
) -> None:
    """Those are listed by their age: one that was opened long ago may have been archived last."""
    ada = server.person("ada")
    await hear_one(server, tmp_path)
    threads = [ada.make_thread(name, private=True) for name in ("older", "newer", "of others")]
    for thread in threads:
        ada.say(str(thread.name), channel=thread)
    for thread in (threads[1], threads[0], threads[2]):
        server.world.archive(thread)
    for thread in threads[:2]:
        server.world.state.add_thread_member(thread.id, server.world.bot_id)
    server.faults.missing_permission(ARCHIVED_PRIVATE)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: len(line.texts) == 2)
        await line.rest()
    assert sorted(line.texts) == ["newer", "older"]


async def test_private_threads_that_nobody_lists_for_us_are_no_trouble(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    await hear_one(server, tmp_path)
    opened_and_archived(server, ada, "away")
    for call in (ARCHIVED_PRIVATE, ARCHIVED_JOINED):
        server.faults.missing_permission(call)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts and server.called(ARCHIVED_JOINED))
        await until_heard(line, ada, "now")
    assert line.texts == ["away", "now"]
    assert not line.told("discord.threads_unlisted")


@pytest.mark.parametrize("how", ["live", "between two sessions"])
async def test_a_thread_that_somebody_wakes_before_we_looked_for_it_is_read_from_its_beginning(
    server: Server, tmp_path: Path, how: str
) -> None:
    """By then it stands in no list of those that sleep, and what is heard in it is newer than what was missed."""
    ada = server.person("ada")
    await hear_one(server, tmp_path)
    thread = opened_and_archived(server, ada, "away")
    held = server.faults.hold(ARCHIVED)
    async with open_line(server, tmp_path) as line:
        await held.arrived.wait()
        await until_heard(line, ada, "newer")
        if how != "live":
            server.gateway.forget()
        server.world.wake_up(thread)
        ada.say("go on", channel=thread)
        if how != "live":
            server.gateway.drop()
        await line.until(lambda: "go on" in line.texts)
        held.release()
        await line.rest()
    assert line.texts == ["newer", "away", "go on"]


class Lists:
    """Discord's answers about one server: its first list waits for one event, each later one for the other, and only those
    know the thread that sleeps."""

    def __init__(self) -> None:
        self.asked = 0
        self.first, self.later = anyio.Event(), anyio.Event()

    async def get(self, path: str, **_: object) -> object:
        if path == MESSAGES:
            return [{"id": "10"}]
        if path != PUBLIC:
            return {"threads": ()}
        self.asked += 1
        found, answer = ((), self.first) if self.asked == 1 else ((ASLEEP,), self.later)
        await answer.wait()
        return {"threads": found, "has_more": False}


def reading_from(path: Path, fed: list[Event]) -> tuple[Marks, CatchingUp]:
    def log(event: str, **fields: object) -> None:
        """Nobody reads it."""

    def heard(*ids: str) -> Heard:
        return Heard()

    marks = Marks(path, log)
    return marks, CatchingUp(marks, heard, FakeClock(), log, fed.extend)


async def come(reading: CatchingUp, lists: Lists, tasks: TaskGroup) -> None:
    """Into the server, and wait until nobody has anything to do."""
    reading.server(Guild("5", channels=(Told("7"),)), cast("Calls", lists), tasks)
    await anyio.wait_all_tasks_blocked()


async def test_a_server_is_looked_through_once_at_a_time_and_again_for_who_came_back_meanwhile(
    tmp_path: Path,
) -> None:
    fed, lists = list[Event](), Lists()
    marks, reading = reading_from(tmp_path / "marks.json", fed)
    marks.come("5", "0", "1")
    marks.read_to("7", "1")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                await come(reading, lists, tasks)
            assert lists.asked == 1
            lists.first.set()
            lists.later.set()
    assert lists.asked == 2
    assert [event.data["id"] for event in fed] == ["10"]


async def test_who_is_stopped_while_a_server_is_looked_through_again_looks_again(tmp_path: Path) -> None:
    """The end of the first look is not the end of the second."""
    fed, lists = list[Event](), Lists()
    marks, reading = reading_from(tmp_path / "marks.json", fed)
    marks.come("5", "0", "1")
    marks.read_to("7", "1")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(marks.keep)
            for _ in range(2):
                await come(reading, lists, tasks)
            lists.first.set()
            while lists.asked < 2:
                await anyio.sleep(0.01)
            marks.read_to("7", "20")
            tasks.cancel_scope.cancel()
        assert fed == []
        lists.later.set()
        _, again = reading_from(tmp_path / "marks.json", fed)
        async with anyio.create_task_group() as tasks:
            await come(again, lists, tasks)
    assert [event.data["id"] for event in fed] == ["10"]
