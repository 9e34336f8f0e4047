"""Where several people talk: what is for us, who says it, and what is said of it; a whole gateway behind it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import config_for, open_gateway
from tests.channels.telegram.server.running import Server

from pilothouse.core.trigger import Mode, Trigger

pytestmark = pytest.mark.anyio

NAME = "@pilot_test_bot"


@pytest.mark.parametrize("mode", ["mention", "all"])
async def test_a_command_of_another_bot_is_answered_by_nobody_here(
    server: Server, tmp_path: Path, mode: Mode
) -> None:
    ada, eve = server.person("Ada"), server.person("Eve")
    group = ada.make_group("Work", eve)
    config = config_for(server, trigger=Trigger(mode))
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        for person in (ada, eve):
            person.say("/roll 20", chat=group)
        ada.say("/roll@pilot_test_bot", chat=group)
        told = await house.until_shown(group.id, "There is no command /roll")
        ada.say(f"{NAME} hello", chat=group)
        await house.until_shown(group.id, "hello")
        texts = server.world.texts(group.id)
        assert [text for text in texts if "no command" in text or "let in" in text] == [told.text]
        assert len(house.rig.engine.turns) == 1
