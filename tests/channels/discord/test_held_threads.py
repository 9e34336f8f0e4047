"""One dedicated channel, and the threads that nobody told us of: what waits for them is said all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from simcord.backend.models import Channel
from tests.channels.discord.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.discord.server.running import Server

from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.channel import DedicatedChannel
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, Content
from pilothouse.core.store import Tx
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import OUTBOX

pytestmark = pytest.mark.anyio


async def put_word(house: GatewayHouse, thread: Channel, text: str) -> ConversationId:
    def unit(tx: Tx) -> ConversationId:
        place = ensure_place(tx, Address(DISCORD, str(thread.parent_id), str(thread.id)), 1.0)
        say(tx, house.rig.ports.ids, place.id, Content(text, "reply"), key=text, at=1.0)
        return place.id

    place = await house.rig.store.write(unit)
    house.rig.ports.signals.poke(OUTBOX)
    return place


async def test_a_thread_that_slept_before_we_came_is_answered_but_not_another_channels(
    server: Server, tmp_path: Path
) -> None:
    ada, elsewhere = server.person("ada"), server.world.make_channel("elsewhere")
    ours, theirs = ada.make_thread("ours"), ada.make_thread("theirs", channel=elsewhere)
    for thread in (ours, theirs):
        server.world.archive(thread)
    config = config_for(server, dedicated=str(server.world.general.id))
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config, kind=DedicatedChannel) as house:
        not_ours = await put_word(house, theirs, "for theirs")
        await put_word(house, ours, "for ours")
        await house.until_shown(ours, "for ours")
        waits = await house.rig.store.read(lambda tx: tx.outbox.unfinished(not_ours))
        assert [row.status for row in waits] == ["queued"]
        assert not server.world.shown(theirs)
