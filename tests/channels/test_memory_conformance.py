"""The in-memory channel keeps what every channel must."""

from __future__ import annotations

import pytest

from pilothouse.channels.memory import CHANNEL, MemoryChannel
from pilothouse.testing.channel import ChannelConformance, ChannelRig, check_spec


class MemoryRig:
    redelivers = True

    def __init__(self) -> None:
        self.channel = MemoryChannel()
        self.address = self.channel.address()

    async def arrive(self, event_id: str, text: str) -> None:
        await self.channel.say(text, native_id=event_id)

    def seen(self) -> str:
        return "\n".join(self.channel.visible())


class TestMemory(ChannelConformance):
    @pytest.fixture
    def rig(self) -> ChannelRig:
        return MemoryRig()


def test_its_spec_is_sound() -> None:
    check_spec(CHANNEL)
