"""Discord as a channel. Importing this costs nothing: discord.py is imported when the channel is built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pilothouse.channels.discord.config import USER_IDS, DiscordConfig, problem
from pilothouse.core.channel import BotIdentity, ChannelHost, ChannelSpec, Finding
from pilothouse.core.ids import ChannelId

if TYPE_CHECKING:
    from pilothouse.channels.discord.channel import DiscordChannel


def _build(config: DiscordConfig, host: ChannelHost) -> DiscordChannel:
    from pilothouse.channels.discord.channel import DiscordChannel

    return DiscordChannel(config, host)


def _identify(config: DiscordConfig) -> BotIdentity:
    from pilothouse.channels.discord.doctor import identify

    return identify(config)


def _examine(config: DiscordConfig) -> Sequence[Finding]:
    from pilothouse.channels.discord.doctor import examine

    return examine(config)


CHANNEL = ChannelSpec(
    ChannelId("discord"), "Discord", DiscordConfig, _build, problem, _identify, _examine, USER_IDS
)
