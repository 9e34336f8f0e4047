"""Telegram as a channel. Importing this costs nothing: its HTTP client is imported when the channel is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.channels.telegram.config import USER_IDS, TelegramConfig, problem
from pilothouse.core.channel import BotIdentity, ChannelHost, ChannelSpec
from pilothouse.core.ids import ChannelId

if TYPE_CHECKING:
    from pilothouse.channels.telegram.channel import TelegramChannel


def _build(config: TelegramConfig, host: ChannelHost) -> TelegramChannel:
    from pilothouse.channels.telegram.channel import TelegramChannel

    return TelegramChannel(config, host)


def _meet(config: TelegramConfig) -> BotIdentity:
    from pilothouse.channels.telegram.receiver import meet

    return meet(config)


CHANNEL = ChannelSpec(
    ChannelId("telegram"), "Telegram", TelegramConfig, _build, problem, _meet, user_ids=USER_IDS
)
