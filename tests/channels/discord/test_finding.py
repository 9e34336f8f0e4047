"""Threads that came and slept while we were away are found: private ones, too, and whenever we come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from simcord.backend.models import Channel
from tests.channels.discord.line import Line, address_of, open_line
from tests.channels.discord.server.faults import ARCHIVED, ARCHIVED_JOINED, ARCHIVED_PRIVATE
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.channels.discord.test_catching_up import hear_one

pytestmark = pytest.mark.anyio


def opened_and_archived(server: Server, by: Person, text: str, *, private: bool = False) -> Channel:
    thread = by.make_thread(text, private=private)
    by.say(text, channel=thread)
    server.world.archive(thread)
    return thread


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


async def come_again(server: Server, line: Line, by: Person, *missed: str) -> None:
    """The session is lost, these threads come and sleep, and a new session begins."""
    server.gateway.forget()
    for text in missed:
        opened_and_archived(server, by, text)
    server.gateway.drop()
    await line.until(lambda: server.gateway.connected)
    await until_heard(line, by, f"after {missed}")


async def test_a_server_is_looked_through_once_at_a_time_and_again_for_who_came_back_meanwhile(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    await hear_one(server, tmp_path)
    held = server.faults.hold_answer(ARCHIVED)
    async with open_line(server, tmp_path) as line:
        await held.arrived.wait()
        await come_again(server, line, ada, "one")
        await come_again(server, line, ada, "two")
        assert len(server.called(ARCHIVED)) == 1
        held.release()
        await line.until(lambda: {"one", "two"} <= set(line.texts))
        await line.rest()
        assert len(server.called(ARCHIVED)) == 2
    assert sorted(line.texts) == sorted(["one", "two", "after ('one',)", "after ('two',)"])


async def test_who_is_stopped_while_a_server_is_looked_through_again_looks_again(
    server: Server, tmp_path: Path
) -> None:
    """The end of the first look is not the end of the second."""
    ada = server.person("ada")
    await hear_one(server, tmp_path)
    first = server.faults.hold_answer(ARCHIVED)
    second = server.faults.hold(ARCHIVED)
    async with open_line(server, tmp_path) as line:
        await first.arrived.wait()
        await come_again(server, line, ada, "away")
        first.release()
        await second.arrived.wait()
        await until_heard(line, ada, "live")
        await line.rest()
    second.release()
    assert "away" not in line.texts
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts)
    assert line.texts == ["away"]
