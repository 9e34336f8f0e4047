"""Missed messages are read before newer ones, however long it takes and however often the connection breaks."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import anyio
import msgspec
import pytest
from simcord.backend import serializers
from tests.channels.discord.gateway_house import config_for
from tests.channels.discord.line import Ahead, Line, open_line
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.faults import DOWNLOAD, HISTORY
from tests.channels.discord.server.running import Server

from pilothouse.channels.discord.config import DiscordConfig, Heard
from pilothouse.channels.discord.history import MOST, PAGE, History
from pilothouse.channels.discord.journal import Marks
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.wire import Channel, Event, Guild
from pilothouse.channels.intake_queue import Journal
from pilothouse.core.clock import Clock
from pilothouse.core.trigger import Trigger
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

MEMBER = "GET /guilds/*/members/*"


async def hear_one(
    server: Server, folder: Path, config: DiscordConfig | None = None, *, clock: Clock | None = None
) -> None:
    """From then on there is a mark: what follows is missed, and not merely older than we are."""
    async with open_line(server, folder, config, clock=clock) as line:
        server.person("bob").say("first")
        await line.until(lambda: "first" in line.texts)
        await line.rest()
    assert line.texts == ["first"]


async def pass_time_until_heard(line: Line, clock: FakeClock, text: str) -> None:
    with anyio.fail_after(60):
        while text not in line.texts:
            await clock.advance(61)
            await anyio.sleep(0.01)


async def test_a_history_that_cannot_be_read_for_minutes_still_comes_before_what_is_newer(
    server: Server, tmp_path: Path
) -> None:
    await hear_one(server, tmp_path)
    ada, clock = server.person("ada"), FakeClock()
    ada.say("away")
    server.faults.drop(HISTORY, times=9)
    async with open_line(server, tmp_path, clock=clock) as line:
        await line.until(lambda: line.told("discord.history_waits"))
        ada.say("live")
        await pass_time_until_heard(line, clock, "live")
        assert line.texts == ["away", "live"]
        assert server.faults.waiting == []


async def test_an_answer_that_is_no_history_costs_no_message(server: Server, tmp_path: Path) -> None:
    await hear_one(server, tmp_path)
    ada, clock = server.person("ada"), FakeClock()
    ada.say("away")
    server.faults.garble(HISTORY)
    async with open_line(server, tmp_path, clock=clock) as line:
        await pass_time_until_heard(line, clock, "away")
    assert line.texts == ["away"]


async def test_a_connection_that_ends_in_the_middle_costs_no_message(server: Server, tmp_path: Path) -> None:
    await hear_one(server, tmp_path)
    ada, clock = server.person("ada"), FakeClock()
    ada.say("away")
    held = server.faults.hold(HISTORY)
    async with open_line(server, tmp_path, clock=clock) as line:
        await held.arrived.wait()
        ada.say("live")
        server.gateway.close(4004)
        await line.until(lambda: line.told("discord.trouble"))
        held.release()
        await pass_time_until_heard(line, clock, "live")
        ada.say("last")
        await line.until(lambda: "last" in line.texts)
        await line.rest()
    assert line.texts == ["away", "live", "last"]


@pytest.mark.parametrize("private", [True, False])
async def test_what_is_said_between_two_sessions_while_a_history_is_on_its_way_is_read(
    server: Server, tmp_path: Path, private: bool
) -> None:
    """The history was looked up before it was said, and the new session begins before we have that."""
    ada = server.person("ada")
    channel = ada.dm if private else server.world.general
    async with open_line(server, tmp_path) as line:
        ada.say("first", channel=channel)
        await line.until(lambda: line.texts)
        await line.rest()
    ada.say("away", channel=channel)
    held = server.faults.hold_answer(HISTORY)
    async with open_line(server, tmp_path) as line:
        await held.arrived.wait()
        server.gateway.forget()
        ada.say("away again", channel=channel)
        server.gateway.drop()
        await line.until(lambda: server.gateway.connected)
        ada.say("live", channel=channel)
        server.person("bob").say("elsewhere", channel=server.world.make_channel("elsewhere"))
        await line.until(lambda: "elsewhere" in line.texts)
        held.release()
        await line.until(lambda: "live" in line.texts)
        await line.rest()
    assert [text for text in line.texts if text != "elsewhere"] == ["away", "away again", "live"]


async def test_roles_that_nobody_tells_now_are_asked_for_again(server: Server, tmp_path: Path) -> None:
    role, ada, clock = server.world.make_role("crew"), server.person("ada"), FakeClock()
    ada.give_role(role)
    await hear_one(server, tmp_path)
    ada.say("away")
    server.faults.drop(MEMBER, times=3)
    config = config_for(server, trigger=Trigger("all"), roles=(str(role.id),))
    async with open_line(server, tmp_path, config, clock=clock) as line:
        await pass_time_until_heard(line, clock, "away")
        assert server.faults.waiting == []
    assert line.texts == ["away"]


async def test_a_thread_that_was_opened_while_we_were_away_is_read_too(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    old = ada.make_thread("old")
    ada.say("before we came", channel=old)
    await hear_one(server, tmp_path)
    ada.say("asked anew", channel=ada.make_thread("new"))
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts)
        ada.say("here we are", channel=old)
        await line.until(lambda: "here we are" in line.texts)
    assert line.texts == ["asked anew", "here we are"]


async def test_a_channel_that_was_opened_while_we_were_away_is_read_too(
    server: Server, tmp_path: Path
) -> None:
    await hear_one(server, tmp_path)
    ada, new = server.person("ada"), server.world.make_channel("new")
    ada.say("asked anew", channel=new)
    ada.say("and below it", channel=ada.make_thread("work", channel=new))
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: len(line.texts) == 2)
    assert sorted(line.texts) == ["and below it", "asked anew"]


async def test_a_clock_that_is_ahead_hides_no_channel_that_was_opened_while_we_were_away(
    server: Server, tmp_path: Path
) -> None:
    await hear_one(server, tmp_path, clock=Ahead(600))
    server.person("ada").say("asked anew", channel=server.world.make_channel("new"))
    async with open_line(server, tmp_path, clock=Ahead(600)) as line:
        await line.until(lambda: line.texts)
    assert line.texts == ["asked anew"]


async def test_a_channel_that_was_muted_before_begins_where_we_were_last_in_its_server(
    server: Server, tmp_path: Path
) -> None:
    ada, other = server.person("ada"), server.world.make_channel("other")
    ada.say("long ago", channel=other)
    await hear_one(
        server, tmp_path, config_for(server, channels=(str(server.world.general.id),), trigger=Trigger("all"))
    )
    ada.say("while you were away", channel=other)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts)
    assert line.texts == ["while you were away"]


async def test_what_is_said_first_in_a_channel_that_we_saw_being_opened_is_read(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        new = server.world.make_channel("new")
        ada.say("first")
        await line.until(lambda: line.texts)
        await line.rest()
    ada.say("asked anew", channel=new)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts)
    assert line.texts == ["asked anew"]


async def test_what_is_heard_while_a_history_cannot_be_read_is_taken_though_it_is_forbidden_in_the_end(
    server: Server, tmp_path: Path
) -> None:
    await hear_one(server, tmp_path)
    ada, clock = server.person("ada"), FakeClock()
    ada.say("away")
    server.faults.drop(HISTORY, times=6)
    server.faults.missing_permission(HISTORY)
    async with open_line(server, tmp_path, clock=clock) as line:
        await line.until(lambda: line.told("discord.history_waits"))
        gone, kept = ada.say("forget it"), ada.say("live")
        ada.delete(gone)
        server.person("bob").say("elsewhere", channel=server.world.make_channel("elsewhere"))
        await line.until(lambda: "elsewhere" in line.texts)
        await pass_time_until_heard(line, clock, "live")
        await line.until(lambda: line.desk.deletions)
        assert line.told("discord.history_unread")
    assert line.texts == ["elsewhere", "forget it", "live"]
    assert [one.native_id for one in line.desk.deletions] == [str(gone.id)]
    assert kept.text == "live"


async def test_what_was_said_in_a_thread_that_was_archived_since_is_read(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    thread = ada.make_thread("work")
    async with open_line(server, tmp_path) as line:
        ada.say("in the thread", channel=thread)
        await line.until(lambda: line.texts)
        await line.rest()
    ada.say("while you were away", channel=thread)
    server.world.archive(thread)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts)
    assert line.texts == ["while you were away"]


@pytest.mark.parametrize("how", ["dedicated", "channels"])
async def test_the_history_of_channels_that_we_do_not_listen_to_is_not_read(
    server: Server, tmp_path: Path, how: str
) -> None:
    ada, other = server.person("ada"), server.world.make_channel("other")
    asleep = ada.make_thread("aside", channel=other)
    async with open_line(server, tmp_path) as line:  # it listened everywhere then
        for place in (server.world.general, other, asleep):
            ada.say("first", channel=place)
        await line.until(lambda: len(line.texts) == 3)
        await line.rest()
    for place in (other, asleep, server.world.general):
        ada.say("away", channel=place)
    server.world.archive(asleep)
    ours = str(server.world.general.id)
    chosen = {"dedicated": ours} if how == "dedicated" else {"channels": (ours,), "trigger": Trigger("all")}
    async with open_line(server, tmp_path, config_for(server, **chosen)) as line:
        await line.until(lambda: line.texts)
    assert {call.path for call in server.called(HISTORY)} == {f"/channels/{ours}/messages"}


async def test_of_a_very_long_absence_the_newest_are_kept_and_the_others_are_told(
    server: Server, tmp_path: Path
) -> None:
    logged: list[tuple[str, dict[str, object]]] = []

    def log(event: str, **fields: object) -> None:
        logged.append((event, fields))

    def heard(*ids: str) -> Heard:
        return Heard()

    marks = Marks(tmp_path / "marks.json", log)
    marks.read_to("7", "1")
    fed: list[Event] = []
    last = MOST + 2 * PAGE

    class Pages:
        async def get(self, path: str, *, query: dict[str, int], **ids: object) -> object:
            after = int(query["after"])
            return [{"id": str(id)} for id in range(after + 1, min(after + PAGE, last) + 1)]

    reading = History(marks, heard, FakeClock(), log, fed.extend)
    guild = Guild("5", channels=(Channel("7", last_message_id=str(last)),))
    async with anyio.create_task_group() as tasks:
        reading.read_server(guild, cast("Calls", Pages()), tasks)
    assert [int(event.data["id"]) for event in fed] == list(range(last - MOST + 1, last + 1))
    assert ("discord.history_cut", {"level": "error", "channel": "7", "lost": last - 1 - MOST}) in logged


async def test_a_forum_has_no_history_to_ask_for(tmp_path: Path) -> None:
    class Silent:
        async def get(self, path: str, **_: object) -> object:
            raise AssertionError(path)

    def log(event: str, **fields: object) -> None:
        """Nobody reads it."""

    def heard(*ids: str) -> Heard:
        return Heard()

    reading = History(Marks(tmp_path / "marks.json", log), heard, FakeClock(), log, list[Event]().extend)
    async with anyio.create_task_group() as tasks:
        for newest in ("500000", "600000"):
            forum = Channel("400000", type=15, last_message_id=newest)
            reading.read_server(Guild("300000", channels=(forum,)), cast("Calls", Silent()), tasks)


async def test_a_server_that_cannot_be_read_is_named_for_nothing_is_caught_up_there(
    server: Server, tmp_path: Path
) -> None:
    """discord.py reads this payload, and we do not."""
    state, guild = server.world.state, server.world.guild
    async with open_line(server, tmp_path) as line:
        odd = {**serializers.guild_create_payload(state, guild), "joined_at": 5}
        for session in server.gateway.connected:
            session.tell("GUILD_CREATE", odd)
        await line.until(lambda: line.told("discord.server_unreadable"))
    assert line.told("discord.server_unreadable")[0]["guild"] == str(guild.id)


async def test_an_edit_and_a_deletion_are_heard_while_files_are_still_fetched(
    server: Server, tmp_path: Path
) -> None:
    ada, elsewhere = server.person("ada"), server.world.make_channel("elsewhere")
    held = server.faults.hold(DOWNLOAD)
    async with open_line(server, tmp_path) as line:
        post = ada.say("look", files=[File("a.bin", b"\x01\x02\x03")])
        await held.arrived.wait()
        ada.edit(post, "look closely")
        ada.delete(post)
        ada.say("they were told", channel=elsewhere)
        await line.until(lambda: "they were told" in line.texts)
        held.release()
        await line.until(lambda: line.desk.edits and line.desk.deletions)
    assert line.desk.edits[0].text == "look closely"


async def test_what_a_server_left_that_we_are_no_longer_in_is_not_kept_for_ever(
    server: Server, tmp_path: Path
) -> None:
    kept = Event("MESSAGE_CREATE", {"id": "500000", "channel_id": "400000", "guild_id": "300000"})
    await Journal(tmp_path / "events.jsonl").add(msgspec.json.encode(kept))
    async with open_line(server, tmp_path) as line:
        await line.rest()
        assert line.told("discord.event_dropped")
    assert line.texts == []
