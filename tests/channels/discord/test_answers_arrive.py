"""An answer arrives, however often Discord breaks on it; and one whose place is gone is told in private."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.discord.gateway_house import open_gateway
from tests.channels.discord.server.faults import SEND
from tests.channels.discord.server.running import Server

from pilothouse.channels.discord.trouble import NO_ACCESS
from pilothouse.core.message import AGAIN_MARK

pytestmark = pytest.mark.anyio

QUICKLY = {"retry_first_s": 0.02, "retry_cap_s": 0.1, "doubt_cap_s": 0.1, "first_view_s": 600.0}


async def test_a_storm_of_5xx_loses_no_answer(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, **QUICKLY) as house:
        server.faults.storm(SEND, status=503, times=12)
        ada.say("hello", channel=ada.dm)
        post = await house.until_shown(ada.dm, "you said: hello")
        assert AGAIN_MARK in post.text


async def test_an_answer_that_has_no_place_any_more_is_told_in_private_and_can_be_read_there(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, **QUICKLY) as house:
        ada.say("good morning", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: good morning")
        server.faults.refuse(
            SEND, 403, NO_ACCESS, "Missing Access", times=2
        )  # the answer, and the word about it
        ada.say(f"<@{server.world.bot_id}> go")
        told = await house.until_shown(ada.dm, "Nothing reaches that place any more")
        assert "give the bot's role" in told.text
        ada.say(told.text[told.text.index("/show") :].split(" shows")[0], channel=ada.dm)
        await house.until(lambda: server.world.texts(ada.dm)[-1].startswith("you said: "))
        assert server.world.texts(server.world.general) == []
