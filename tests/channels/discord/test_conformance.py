"""What every channel must keep, kept by this one on a Discord that simcord judges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.channels.discord.gateway_house import config_for
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post
from tests.channels.telegram.receiving_house import KeptBlobs

from pilothouse.channels.discord import CHANNEL
from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.channel import DiscordChannel
from pilothouse.channels.discord.config import Trigger
from pilothouse.channels.discord.payload import Message, unpack
from pilothouse.core.channel import ChannelHost
from pilothouse.core.message import Address, Part
from pilothouse.runtime.ports import SystemClock
from pilothouse.testing.channel import ChannelConformance, check_spec


def _silent(event: str, **fields: object) -> None:
    pass


class DiscordRig:
    redelivers = True

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._ada = server.person("ada")
        self._posts: dict[str, Post] = {}
        host = ChannelHost(KeptBlobs(), str(folder), _silent, SystemClock())
        self.channel = DiscordChannel(config_for(server, trigger=Trigger("all")), host)
        self.address = Address(DISCORD, str(server.world.general.id))

    async def arrive(self, event_id: str, text: str) -> None:
        await self._server.world.until(lambda: self._server.gateway.connected)
        if event_id in self._posts:
            self._server.gateway.tell("MESSAGE_CREATE", self._posts[event_id].wire)
            return
        self._posts[event_id] = self._ada.say(text)

    def seen(self) -> str:
        return "\n".join(self._server.world.texts(self._server.world.general))


class TestDiscord(ChannelConformance):
    # pyrefly: ignore [missing-override-decorator]
    def read(self, parts: Sequence[Part]) -> str:
        """What is too long hangs on its beginning as a file, which has all of it."""
        found = [unpack(part) for part in parts]
        files = [file.text for one in found if isinstance(one, Message) for file in one.documents]
        return "".join(files or [one.text for one in found])

    @pytest.fixture
    async def rig(self, anyio_backend: str, server: Server, tmp_path: Path) -> DiscordRig:
        """Also for tests that await nothing: the server does."""
        return DiscordRig(server, tmp_path)


def test_the_spec_can_be_named_by_an_entry_point() -> None:
    check_spec(CHANNEL)
