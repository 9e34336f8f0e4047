"""The sign that somebody is writing: shown while a turn works, in its own chat."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import open_gateway
from tests.channels.telegram.server.running import Server
from tests.runtime.puppet import until_interrupted

from pilothouse.channels.telegram.content import TELEGRAM
from pilothouse.core.channel import CanType
from pilothouse.core.errors import TryLater
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address

pytestmark = pytest.mark.anyio


async def test_a_turn_that_works_types_in_its_chat(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted) as house:
        assert isinstance(house.channel, CanType)
        ada.say("build")
        await house.until(lambda: server.world.actions)
        ada.say("/stop")
        await house.until_shown(ada.id, "Stopping.")
        assert set(server.world.actions) == {(ada.id, "typing")}


async def test_where_telegram_wants_a_pause_nothing_types(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        server.faults.too_many("sendMessage", after_s=600)
        ada.say("hello")
        chat = ConversationId(f"telegram:{ada.id}")
        await house.rig.until(lambda tx: any(row.why for row in tx.outbox.unfinished(chat)))
        before = len(server.world.actions)
        with pytest.raises(TryLater):
            await house.channel.type(Address(TELEGRAM, str(ada.id)))
        assert len(server.world.actions) == before
