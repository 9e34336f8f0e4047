"""The connection to Discord: the failures it survives, the ones it reports, and the messages it reads afterwards."""

from __future__ import annotations

import threading
from pathlib import Path

import anyio.to_thread
import pytest
from tests.channels.discord.gateway_house import config_for
from tests.channels.discord.line import open_line
from tests.channels.discord.server.faults import FOLLOW_UP, HISTORY, SEND
from tests.channels.discord.server.running import Server
from tests.ports import hold_port

from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.doctor import identify
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.message import Address, Content
from pilothouse.core.secret import Secret
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


async def test_what_was_said_while_we_were_away_is_read_in_order(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    thread = ada.make_thread("work")
    async with open_line(server, tmp_path) as line:
        ada.say("first")
        ada.say("in private", channel=ada.dm)
        ada.say("in the thread", channel=thread)
        await line.until(lambda: len(line.desk.accepted) == 3)
        await line.rest()
    for number in range(130):
        ada.say(f"away {number}")
    ada.say("away in private", channel=ada.dm)
    ada.say("away in the thread", channel=thread)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: len(line.desk.accepted) >= 132)
        ada.say("back")
        await line.until(lambda: "back" in line.texts)
    in_general = [
        m.text
        for m in line.desk.accepted
        if m.address.place == str(server.world.general.id) and not m.address.thread
    ]
    assert in_general == [*(f"away {number}" for number in range(130)), "back"]
    assert {"away in private", "away in the thread"} <= set(line.texts)


async def test_what_was_said_before_we_ever_came_is_not_ours(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    ada.say("long ago")
    async with open_line(server, tmp_path) as line:
        ada.say("now")
        await line.until(lambda: line.texts)
    assert line.texts == ["now"]
    assert server.called(HISTORY) == []


@pytest.mark.parametrize("fault", ["drop", "op 7", "op 9", "op 9 resumable"])
async def test_a_broken_line_loses_nothing_and_doubles_nothing(
    server: Server, tmp_path: Path, fault: str
) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        ada.say("before")
        await line.until(lambda: line.texts)
        match fault:
            case "drop":
                server.gateway.drop()
            case "op 7":
                server.gateway.ask_to_reconnect()
            case "op 9":
                server.gateway.invalidate()
            case _:
                server.gateway.invalidate(resumable=True)
        ada.say("meanwhile")
        await line.until(lambda: "meanwhile" in line.texts)
        ada.say("after")
        await line.until(lambda: "after" in line.texts)
    assert line.texts == ["before", "meanwhile", "after"]


async def test_a_channel_that_is_gone_is_forgotten_and_one_that_is_forbidden_is_read_later(
    server: Server, tmp_path: Path
) -> None:
    ada, gone, other = (
        server.person("ada"),
        server.world.make_channel("gone"),
        server.world.make_channel("other"),
    )
    async with open_line(server, tmp_path) as line:
        ada.say("here", channel=gone)
        ada.say("there", channel=other)
        await line.until(lambda: len(line.texts) == 2)
        await line.rest()
    ada.say("lost", channel=gone)
    ada.say("more", channel=other)
    server.faults.unknown_channel(f"GET /channels/{gone.id}/messages")
    server.faults.refuse(f"GET /channels/{other.id}/messages", 403, 50001, "Missing Access")
    async with open_line(server, tmp_path) as line:
        await line.until(
            lambda: line.told("discord.channel_forgotten") and line.told("discord.history_unread")
        )
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: len(line.texts) == 2)
        ada.say("heard again", channel=gone)
        await line.until(lambda: "heard again" in line.texts)
    assert (sorted(line.texts[:2]), line.texts[2]) == (["lost", "more"], "heard again")


async def test_history_is_asked_for_again_when_discord_stumbles(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        ada.say("first")
        await line.until(lambda: line.texts)
        await line.rest()
    ada.say("away")
    server.faults.drop(HISTORY)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts)
    assert line.texts == ["away"]


async def test_a_wrong_token_is_said_once_and_waited_out(server: Server, tmp_path: Path) -> None:
    config = DiscordConfig(
        token=Secret("wrong" * 8), api_base=server.api_base, gateway_url=server.gateway_url
    )
    clock = FakeClock(1_800_000_000.0)
    async with open_line(server, tmp_path, config, clock=clock, connected=False) as line:
        await line.until(lambda: line.told("discord.trouble"))
        for _ in range(3):
            failed = len(line.told("discord.not_connected"))
            await clock.advance(61)
            await line.until(lambda failed=failed: len(line.told("discord.not_connected")) > failed)
        (told,) = line.told("discord.trouble")
        assert "DISCORD_TOKEN" in told["text"]
        assert "refuses" in line.channel.health().trouble
        (part,) = line.channel.render(Content("hello"))
        with pytest.raises(TryLater):
            await line.channel.send(Address(DISCORD, str(server.world.general.id)), part)
    assert "wrongwrong" not in repr(line.logged)


async def test_a_missing_intent_is_explained_with_the_place_to_switch_it_on(
    server: Server, tmp_path: Path
) -> None:
    server.refuse_message_content()
    async with open_line(server, tmp_path, connected=False) as line:
        await line.until(lambda: line.told("discord.trouble"))
        text = line.told("discord.trouble")[0]["text"]
        assert "Message Content Intent" in text
        assert "/bot" in text
        assert "Privileged Gateway Intents" in text


async def test_without_the_intent_mentions_and_private_messages_are_heard(
    server: Server, tmp_path: Path
) -> None:
    server.refuse_message_content()
    ada = server.person("ada")
    async with open_line(server, tmp_path, config_for(server, message_content=False)) as line:
        ada.say(f"<@{server.world.bot_id}> hello")
        ada.say("psst", channel=ada.dm)
        await line.until(lambda: len(line.texts) == 2)
    assert set(line.texts) == {"hello", "psst"}


async def test_a_network_that_is_down_at_the_start_is_told_after_a_minute(
    server: Server, tmp_path: Path
) -> None:
    clock = FakeClock(1_800_000_000.0)
    with hold_port() as port:
        config = DiscordConfig(
            token=Secret(server.token),
            api_base=f"http://127.0.0.1:{port}/api/v10",
            gateway_url=server.gateway_url,
        )
        async with open_line(server, tmp_path, config, clock=clock, connected=False) as line:
            await line.until(lambda: line.told("discord.not_connected"))
            assert line.told("discord.trouble") == []
            while not line.told("discord.trouble"):
                failed = len(line.told("discord.not_connected"))
                await clock.advance(60)
                await line.until(lambda failed=failed: len(line.told("discord.not_connected")) > failed)
            assert "could not be reached" in line.told("discord.trouble")[0]["text"]


@pytest.mark.parametrize(
    ("code", "words"),
    [(4010, "update"), (4011, "more servers"), (4012, "update"), (4013, "update")],
)
async def test_what_only_a_restart_can_mend_is_said_and_not_tried_again(
    server: Server, tmp_path: Path, code: int, words: str
) -> None:
    async with open_line(server, tmp_path) as line:
        server.gateway.close(code)
        await line.until(lambda: line.told("discord.trouble"))
        (told,) = line.told("discord.trouble")
        assert (words in told["text"], f"close code {code}" in told["text"]) == (True, True)
        await line.until(lambda: line.told("discord.stopped"))
        assert line.told("discord.not_connected") == []
        assert told["text"] == line.channel.health().trouble


async def test_nothing_is_left_behind_when_it_ends(server: Server, tmp_path: Path) -> None:
    def hearts() -> list[str]:
        return [one.name for one in threading.enumerate() if "keep-alive" in one.name]

    async with open_line(server, tmp_path) as line:
        await line.until(hearts)
    await line.until(lambda: not server.gateway.connected and not hearts())


async def test_the_token_is_in_no_log_and_in_no_file(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        server.faults.storm(SEND, status=500, times=1)
        server.faults.too_many(SEND, after_s=0.01)
        (part,) = line.channel.render(Content("hello"))
        await line.channel.send(Address(DISCORD, str(server.world.general.id)), part)
        ada.say("hello")
        await line.until(lambda: line.texts)
        server.gateway.close(4004)
        await line.until(lambda: line.told("discord.trouble"))
    assert server.token not in repr(line.logged)
    assert all(
        server.token.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()
    )


async def test_the_token_of_an_interaction_is_in_no_log(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        await line.send(server.world.general, "hello")
        (post,) = server.world.shown(server.world.general)
        server.faults.too_many(FOLLOW_UP, after_s=0.01)
        pressed = ada.forge(post, "a button of nobody's")
        await line.until(lambda: pressed.followups)
        assert any("[token]" in told["text"] for told in line.told("discord.library_warned"))
    assert pressed.record.token not in repr(line.logged)


async def test_health_tells_when_discord_was_last_heard(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path, connected=False) as line:
        assert line.channel.health().heard_at is None
        await line.until(lambda: line.channel.health().heard_at)
        assert line.channel.health().trouble == ""


async def test_whoever_sets_it_up_learns_who_we_are_and_gets_a_link(server: Server) -> None:
    met = await anyio.to_thread.run_sync(identify, config_for(server))
    assert (met.name, met.problem) == ("TestBot", "")
    assert "permissions=" in met.link
    wrong = DiscordConfig(token=Secret("wrong" * 8), api_base=server.api_base)
    assert "token is refused" in (await anyio.to_thread.run_sync(identify, wrong)).problem
    server.refuse_message_content()
    assert "Message Content" in (await anyio.to_thread.run_sync(identify, config_for(server))).problem


async def test_an_event_that_discord_py_cannot_read_costs_a_session_and_no_message(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        ada.say("before")
        await line.until(lambda: line.texts)
        for session in server.gateway.connected:
            session.tell("MESSAGE_CREATE", {"id": "x", "channel_id": None, "author": 3, "guild_id": 7})
        await line.until(lambda: line.told("discord.connection_broke"))
        ada.say("still here")
        await line.until(lambda: "still here" in line.texts)
        assert line.told("discord.trouble") == []
    assert line.texts == ["before", "still here"]


async def test_what_comes_while_the_history_is_read_waits_for_it_and_comes_once(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        ada.say("first")
        await line.until(lambda: line.texts)
        await line.rest()
    ada.say("away")
    held = server.faults.hold(HISTORY)
    async with open_line(server, tmp_path) as line:
        await held.arrived.wait()
        ada.say("live")  # also in the history by the time that it is read
        held.release()
        await line.until(lambda: "live" in line.texts)
        ada.say("last")
        await line.until(lambda: "last" in line.texts)
    assert line.texts == ["away", "live", "last"]


async def test_in_a_forum_nobody_opens_a_thread_below_a_post(server: Server, tmp_path: Path) -> None:
    async with open_line(server, tmp_path) as line:
        for session in server.gateway.connected:
            session.tell("CHANNEL_CREATE", {"id": "400000", "type": 15, "guild_id": "300000"})
        server.person("ada").say("they were told")
        await line.until(lambda: line.texts)
        with pytest.raises(Rejected, match="make a new post"):
            await line.channel.open_thread(Address(DISCORD, "400000", "450000"), "aside")
