"""A press is acknowledged at once, also while other work waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.channels.discord.line import open_line
from tests.channels.discord.server.faults import SEND
from tests.channels.discord.server.running import Server
from typing_extensions import override

from pilothouse.channels.presses import ask_key, stop_key
from pilothouse.core.ask import Ask, hash_payload
from pilothouse.core.channel import PlaceSettings
from pilothouse.core.errors import TryLater
from pilothouse.core.ids import AskId
from pilothouse.core.message import Address, Author
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio

ASK = Ask(AskId("ask-1"), "approval", "Run it?", {}, hash_payload({}))


class Busy(ScriptedDesk):
    """A store that another process writes to: whoever reads waits."""

    def __init__(self) -> None:
        super().__init__()
        self.is_busy = False
        self.asked, self.free = anyio.Event(), anyio.Event()

    @override
    async def settings_of(self, address: Address) -> PlaceSettings:
        if self.is_busy:
            self.asked.set()
            await self.free.wait()
        return await super().settings_of(address)

    @override
    async def query(self, what: str, by: Author, **terms: Any) -> Any:
        if self.is_busy:
            self.asked.set()
            await self.free.wait()
        return await super().query(what, by, **terms)


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


async def test_while_the_store_keeps_an_earlier_message_waiting(server: Server, tmp_path: Path) -> None:
    ada, desk = server.person("ada"), Busy()
    async with open_line(server, tmp_path, desk=desk) as line:
        await line.send(server.world.general, "hello")
        (post,) = server.world.shown(server.world.general)
        desk.is_busy = True
        ada.say("a message")
        await desk.asked.wait()
        pressed = ada.forge(post, "x")
        await line.until(lambda: pressed.kind)
        assert line.texts == []
        desk.free.set()
        await line.until(lambda: line.texts == ["a message"])


@pytest.mark.parametrize("key", [stop_key(None), ask_key(ASK, "choose", 0)], ids=["stop", "answer"])
async def test_before_the_desk_has_answered(server: Server, tmp_path: Path, key: str) -> None:
    ada, desk = server.person("ada"), Busy()
    async with open_line(server, tmp_path, desk=desk) as line:
        await line.send(server.world.general, "hello")
        (post,) = server.world.shown(server.world.general)
        desk.is_busy = True
        pressed = ada.forge(post, key)
        await desk.asked.wait()
        await line.until(lambda: pressed.kind)
        assert desk.queries == []
        desk.free.set()
        await line.until(lambda: desk.queries)


async def test_while_the_disk_takes_nothing(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        (tmp_path / "presses.jsonl").mkdir()
        await line.send(server.world.general, "hello")
        (post,) = server.world.shown(server.world.general)
        pressed = ada.forge(post, "x")
        await line.until(lambda: pressed.kind)
        assert line.told("discord.journal_not_written")
