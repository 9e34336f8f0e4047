"""A server that puts us out: nothing that waits to be said there is tried any more, until we are back."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from simcord.backend.models import Channel
from tests.channels.discord.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.discord.line import address_of, open_line
from tests.channels.discord.server.running import Server
from tests.channels.discord.test_welcome import boat, until_heard

from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Content, Presence
from pilothouse.core.store import Tx
from pilothouse.runtime.channel_status import removal_from
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.outbox import say
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio


def places_of(here: Presence) -> set[str]:
    return {address.place for address in (here.address, *here.beside)}


async def test_of_a_server_that_puts_us_out_the_desk_hears_with_all_its_channels(
    server: Server, tmp_path: Path
) -> None:
    guild, deck = boat(server, server.person("ada"))
    hold = server.world.make_channel("hold", guild=guild)
    async with open_line(server, tmp_path) as line:
        server.gateway.tell("GUILD_DELETE", {"id": str(guild.id)})
        await line.until(lambda: line.desk.departures)
    (here,) = line.desk.departures
    assert places_of(here) == {str(deck.id), str(hold.id)}
    assert here.title == "Boat"


async def test_a_server_that_is_only_not_available_put_nobody_out(server: Server, tmp_path: Path) -> None:
    guild, _ = boat(server, server.person("ada"))
    async with open_line(server, tmp_path) as line:
        server.gateway.tell("GUILD_DELETE", {"id": str(guild.id), "unavailable": True})
        await until_heard(server, line, "one")
        assert line.desk.departures == []
        server.gateway.tell("GUILD_DELETE", {"id": str(guild.id)})
        await line.until(lambda: line.desk.departures)


async def test_who_was_put_out_while_the_line_was_down_learns_it_of_the_next_session(
    server: Server, tmp_path: Path
) -> None:
    guild, deck = boat(server, server.person("ada"))
    async with open_line(server, tmp_path) as line:
        await until_heard(server, line, "one")
        for times in (1, 2):
            server.gateway.forget()
            server.world.state.guilds.pop(guild.id, None)
            server.gateway.drop()
            await line.until(lambda: server.gateway.connected)
            await until_heard(server, line, f"back {times}")
            await line.until(lambda: line.desk.departures)
    (here,) = line.desk.departures
    assert places_of(here) == {str(deck.id)}


async def test_a_store_that_is_locked_is_waited_for(server: Server, tmp_path: Path) -> None:
    guild, _ = boat(server, server.person("ada"))
    clock, desk = FakeClock(), ScriptedDesk()
    desk.troubles["left"] = 1
    async with open_line(server, tmp_path, clock=clock, desk=desk) as line:
        server.gateway.tell("GUILD_DELETE", {"id": str(guild.id)})
        await line.until(lambda: line.told("discord.event_waits"))
        await clock.advance(2)
        await line.until(lambda: desk.departures)


async def wait_in(house: GatewayHouse, *channels: Channel) -> list[ConversationId]:
    """Something that nobody sends before the far future waits there."""
    later = house.rig.ports.clock.now() + 1_000_000

    def unit(tx: Tx) -> list[ConversationId]:
        places = [ensure_place(tx, address_of(channel), 1.0).id for channel in channels]
        for place in places:
            say(tx, house.rig.ports.ids, place, Content("later"), key=f"later:{place}", at=1.0)
            row = tx.outbox.by_key(f"later:{place}")
            assert row is not None and tx.outbox.claim([row.id])
            assert tx.outbox.retry(row.id, later, "not yet")
        return places

    return await house.rig.store.write(unit)


@pytest.mark.parametrize("dedicated", [True, False])
async def test_what_waits_in_a_server_is_dropped_with_that_of_its_threads_until_we_are_back(
    server: Server, tmp_path: Path, dedicated: bool
) -> None:
    """Also in a thread of a channel in which nobody ever talked to us."""
    ada, elsewhere = server.person("ada"), server.world.make_channel("elsewhere")
    thread = ada.make_thread("work", channel=elsewhere)
    config = config_for(server, dedicated=str(server.world.general.id) if dedicated else "")
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        places = await wait_in(house, server.world.general, thread)

        async def state() -> list[tuple[int, str]]:
            def unit(tx: Tx) -> list[tuple[int, str]]:
                left = [(len(tx.outbox.unfinished(place)), removal_from(tx, place)) for place in places]
                return [(waits, gone.why if gone else "") for waits, gone in left]

            return await house.rig.store.read(unit)

        async def until_state(*wanted: tuple[int, str]) -> None:
            with anyio.fail_after(60):
                while await state() != list(wanted):
                    await anyio.sleep(0.01)

        assert await state() == [(1, ""), (1, "")]
        server.gateway.tell("GUILD_DELETE", {"id": str(server.world.guild.id)})
        await until_state(*[(0, "Somebody removed us from “Lab”")] * 2)
        server.world.invite(server.world.guild)
        await until_state(*[(0, "")] * 2)
