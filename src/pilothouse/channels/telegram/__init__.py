"""Describe the Telegram channel. Importing this is cheap: the HTTP client is imported when the channel opens."""

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


def _identify(config: TelegramConfig) -> BotIdentity:
    from pilothouse.channels.telegram.account import identify

    return identify(config)


CHANNEL = ChannelSpec(
    ChannelId("telegram"), "Telegram", TelegramConfig, _build, problem, _identify, user_ids=USER_IDS
)
