"""Describe the webhook channel: programs call us, and their calls become messages. Importing this is cheap."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.channels.webhook.config import HOOK_IDS, WEBHOOK, WebhookConfig, problem
from pilothouse.core.channel import BotIdentity, ChannelHost, ChannelSpec

if TYPE_CHECKING:
    from pilothouse.channels.webhook.channel import WebhookChannel


def _build(config: WebhookConfig, host: ChannelHost) -> WebhookChannel:
    from pilothouse.channels.webhook.channel import WebhookChannel

    return WebhookChannel(config, host)


def _identify(config: WebhookConfig) -> BotIdentity:
    from pilothouse.channels.webhook.probe import try_listener

    return try_listener(config)


CHANNEL = ChannelSpec(WEBHOOK, "Webhooks", WebhookConfig, _build, problem, _identify, user_ids=HOOK_IDS)
