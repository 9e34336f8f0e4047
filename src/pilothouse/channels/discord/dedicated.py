"""Discord as one dedicated channel: only what is said there, and in its threads, passes through us."""

from __future__ import annotations

import anyio

from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.channel import DiscordChannel
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.core.channel import ChannelHost
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, conversation_id

LOOK_EVERY_S = 0.05


class DedicatedChannel(DiscordChannel):
    """Holds only the conversations of one channel: another bot may serve the others."""

    def __init__(self, config: DiscordConfig, host: ChannelHost) -> None:
        super().__init__(config, host)
        self._id = config.dedicated

    def holds(self) -> tuple[ConversationId, ...]:
        return (conversation_id(Address(DISCORD, self._id)),)

    async def listening(self) -> None:
        """Returns once the gateway has spoken to us: what is said from now on is heard."""
        while self.health().heard_at is None:
            await anyio.sleep(LOOK_EVERY_S)
