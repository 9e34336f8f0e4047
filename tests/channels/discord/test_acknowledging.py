"""A press is acknowledged, whatever else has to wait."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.discord.line import open_line
from tests.channels.discord.server.faults import SEND
from tests.channels.discord.server.running import Server

from pilothouse.core.errors import TryLater

pytestmark = pytest.mark.anyio


async def test_while_all_else_pauses(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        await line.send(server.world.general, "hello")
        (post,) = server.world.shown(server.world.general)
        server.faults.too_many(SEND, after_s=3000.0, everywhere=True)
        with pytest.raises(TryLater):
            await line.send(server.world.general, "more")
        pressed = ada.forge(post, "x")
        await line.until(lambda: pressed.kind)
        await line.until(lambda: pressed.followups)
        with pytest.raises(TryLater):
            await line.send(server.world.general, "still not")
