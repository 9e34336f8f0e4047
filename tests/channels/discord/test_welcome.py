"""A server whose owner may talk to us is greeted once for each time that we are invited; of strangers' our owner hears."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from simcord.backend.models import Channel, Guild, Overwrite
from simcord.enums import ChannelType, OverwriteType
from tests.channels.discord.gateway_house import config_for, open_gateway
from tests.channels.discord.line import Line, address_of, open_line
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server

from pilothouse.channels.discord.servers import NEEDED
from pilothouse.core.trigger import Trigger
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio


def boat(server: Server, owner: Person, name: str = "Boat") -> tuple[Guild, Channel]:
    """A server of theirs, with one channel."""
    guild = server.world.state.create_guild(name, owner_id=owner.id)
    return guild, server.world.make_channel("deck", guild=guild)


def close(server: Server, channel: Channel, name: str) -> None:
    """Nobody may do this there, nor may we."""
    everybody = Overwrite(channel.guild_id or 0, OverwriteType.ROLE, 0, NEEDED[name])
    server.world.state.set_overwrite(channel.id, everybody)


async def until_heard(server: Server, line: Line, text: str) -> None:
    server.person("bob").say(text)
    await line.until(lambda: text in line.texts)


async def test_a_server_is_greeted_once_for_each_invitation(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    guild, deck = boat(server, ada)
    config = config_for(server, trigger=Trigger("reply"))
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        ada.say("hello", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: hello")
        assert server.world.texts(deck) == [], "we were there before anybody ran us"
        server.world.invite(guild)
        said = await house.until_shown(deck, "Hello.")
        assert said.text == (
            "Hello. Here I react to commands, and to messages that reply to me. My name is \\@TestBot. /bind chooses the "
            "folder that I work in, /trigger what I react to."
        )
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        ada.say("again", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: again")
        assert len(server.world.texts(deck)) == 1
        server.world.invite(guild, hours_ahead=2)
        await house.until(lambda: len(server.world.texts(deck)) == 2)


async def test_of_a_strangers_server_our_owner_hears_and_the_server_does_not(
    server: Server, tmp_path: Path
) -> None:
    ada, mallory = server.person("ada"), server.person("mallory")
    guild, deck = boat(server, mallory, "Trap")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("hello", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: hello")
        server.world.invite(guild)
        told = await house.until_shown(ada.dm, "added me to")
        start = f"Somebody in the server of Mallory (discord:{mallory.id}), who was not let in, added me to “Trap”"
        assert told.text.startswith(start)
        assert server.world.texts(deck) == []


async def test_what_was_greeted_is_known_after_a_restart(server: Server, tmp_path: Path) -> None:
    guild, _ = boat(server, server.person("ada"))
    async with open_line(server, tmp_path) as line:
        server.world.invite(guild)
        await line.until(lambda: line.desk.arrivals)
        await until_heard(server, line, "one")
    assert len(line.desk.arrivals) == 1
    async with open_line(server, tmp_path) as line:
        await until_heard(server, line, "two")
    assert line.desk.arrivals == []


async def test_who_was_invited_while_we_were_away_is_greeted(server: Server, tmp_path: Path) -> None:
    guild, deck = boat(server, server.person("ada"))
    async with open_line(server, tmp_path) as line:
        await until_heard(server, line, "one")
    server.world.invite(guild)
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.desk.arrivals)
    ((here, _),) = line.desk.arrivals
    assert (here.address, here.title) == (address_of(deck), "Boat")


@pytest.mark.parametrize("closed", ["Send Messages", "View Channel"])
async def test_only_a_channel_that_lets_us_write_is_greeted(
    server: Server, tmp_path: Path, closed: str
) -> None:
    guild, deck = boat(server, server.person("ada"))
    state = server.world.state
    state.create_channel(guild.id, "news", type=ChannelType.NEWS, position=0)
    second, third = (server.world.make_channel(name, guild=guild) for name in ("second", "third"))
    close(server, deck, closed)
    async with open_line(server, tmp_path) as line:
        server.world.invite(guild)
        await line.until(lambda: line.desk.arrivals)
        guild.system_channel_id = third.id
        server.world.invite(guild, hours_ahead=2)
        await line.until(lambda: len(line.desk.arrivals) == 2)
        for channel in (second, third):
            close(server, channel, closed)
        server.world.invite(guild, hours_ahead=3)
        await line.until(lambda: line.told("discord.not_greeted"))
    assert [here.address for here, _ in line.desk.arrivals] == [address_of(second), address_of(third)]


@pytest.mark.parametrize("kind", ["dedicated", "channels"])
async def test_where_we_do_not_listen_nobody_is_greeted(server: Server, tmp_path: Path, kind: str) -> None:
    guild, deck = boat(server, server.person("ada"))
    general = str(server.world.general.id)
    chosen: dict[str, Any] = {"dedicated": str(deck.id)} if kind == "dedicated" else {"channels": (general,)}
    async with open_line(server, tmp_path, config_for(server, **chosen)) as line:
        server.world.invite(guild)
        await line.until(lambda: line.told("discord.not_greeted"))
    assert line.desk.arrivals == []


async def test_a_store_that_is_locked_is_waited_for(server: Server, tmp_path: Path) -> None:
    """By its clock nobody ran us before: both servers are new."""
    boat(server, server.person("ada"))
    clock, desk = FakeClock(1.0), ScriptedDesk()
    desk.troubles["arrived"] = 1
    async with open_line(server, tmp_path, clock=clock, desk=desk) as line:
        await line.until(lambda: line.told("discord.event_waits") and desk.arrivals)
        await clock.advance(2)
        await line.until(lambda: len(desk.arrivals) == 2)
    assert {here.title for here, _ in desk.arrivals} == {"Boat", "Lab"}
