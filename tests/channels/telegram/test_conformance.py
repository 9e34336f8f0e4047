"""What every channel must keep, kept by this one on a server that aiogram judges."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import config_for
from tests.channels.telegram.receiving_house import KeptBlobs
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram import CHANNEL
from pilothouse.channels.telegram.channel import TelegramChannel
from pilothouse.channels.telegram.content import TELEGRAM
from pilothouse.core.channel import ChannelHost
from pilothouse.core.message import Address
from pilothouse.runtime.ports import SystemClock
from pilothouse.testing.channel import ChannelConformance, check_spec


def _silent(event: str, **fields: object) -> None:
    pass


class TelegramRig:
    redelivers = True

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._ada = server.person("Ada")
        self._updates: dict[str, dict[str, object]] = {}
        host = ChannelHost(KeptBlobs(), str(folder), _silent, SystemClock())
        self.channel = TelegramChannel(config_for(server), host)
        self.address = Address(TELEGRAM, str(self._ada.id))

    async def arrive(self, event_id: str, text: str) -> None:
        world = self._server.world
        if event_id in self._updates:
            world.push("message", self._updates[event_id])
            return
        self._updates[event_id] = self._ada.say(text).message

    def seen(self) -> str:
        return "\n".join(self._server.world.texts(self._ada.id))


class TestTelegram(ChannelConformance):
    @pytest.fixture
    async def rig(self, anyio_backend: str, server: Server, tmp_path: Path) -> TelegramRig:
        """Also for tests that await nothing: the server does."""
        return TelegramRig(server, tmp_path)


def test_the_spec_can_be_named_by_an_entry_point() -> None:
    check_spec(CHANNEL)
