"""The section `[channels.telegram]`, and what may be wrong with it."""

from __future__ import annotations

import os
import re
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from pilothouse.channels.advice import and_put, put_missing
from pilothouse.channels.telegram.address import address_problem, without_login
from pilothouse.channels.telegram.endpoint import API_BASE, Endpoint
from pilothouse.core.channel import IdForm
from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret
from pilothouse.core.trigger import Trigger, trigger_problem

VARIABLE = "TELEGRAM_TOKEN"
USER_IDS = IdForm(re.compile("-?[0-9]{1,20}"), "a number, such as 12345")
"""Below zero where a channel or a group writes in its own name."""

_CHAT = re.compile(r"-?\d{1,20}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")


class WebhookConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`url` is what Telegram calls; a proxy that does TLS passes it on to `host` and `port`."""

    url: str = ""
    secret: Secret = Secret("")
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="a port, from 1 to 65535")] = 8443
    path: str = "/telegram"


class TelegramConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`chats` says by a group's number what we react to there; `trigger` is for all others."""

    token: Secret = Secret("")
    api_base: str = API_BASE
    file_base: str = ""
    proxy: str = ""
    mode: Literal["poll", "webhook"] = "poll"
    webhook: WebhookConfig = WebhookConfig()
    trigger: Trigger = Trigger()
    chats: dict[str, Trigger] = field(default_factory=dict)
    final: Literal["new", "edit"] = "new"
    """Whether an answer is a new message, which makes a sound, or takes the place of the progress."""
    forward_wait_s: Annotated[float, Meta(ge=0, le=10, description="seconds, from 0 to 10")] = 0.3
    """How long a text waits for forwards that belong to it."""

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.token, self.api_base, self.file_base, self.proxy)


def problem(config: TelegramConfig) -> str:
    """Why this cannot work, in plain words with the fix; empty if it can."""
    if not config.token:
        return f"the bot token is missing: @BotFather gives one; {put_missing(config.token, VARIABLE)}"
    if not config.endpoint.token_is_plausible:
        how = f"copy it anew from @BotFather{and_put(config.token)}"
        return f"the bot token does not look like one (123456:ABC…): {how}"
    for name in ("api_base", "file_base", "proxy"):
        value = getattr(config, name)
        if value and (wrong := address_problem(value)):
            return f"{name} is {without_login(value)!r}: {wrong}"
    return _webhook_problem(config) or _trigger_problem(config) or _way_problem(config)


def _way_problem(config: TelegramConfig) -> str:
    """Where the environment names a proxy or certificates. Most do not, and need not wait until it was tried."""
    names = [name.upper() for name in os.environ]
    if not any(name.startswith("SSL_CERT_") or name.endswith("_PROXY") for name in names):
        return ""
    from pilothouse.channels.telegram.way import find_way

    try:
        find_way(config.endpoint)
    except ConfigError as error:
        return str(error)
    return ""


def _webhook_problem(config: TelegramConfig) -> str:
    if config.mode == "poll":
        return ""
    hook = config.webhook
    if not hook.url.startswith("https://"):
        return f"webhook.url is {hook.url!r}; Telegram calls only an address that begins with https://"
    if not _SECRET.fullmatch(hook.secret.reveal()):
        put = put_missing(hook.secret, "TELEGRAM_WEBHOOK_SECRET")
        return f"webhook.secret must be 16 to 256 letters, digits, _ or -; {put}"
    return "" if hook.path.startswith("/") else f"webhook.path is {hook.path!r}; it must begin with /"


def _trigger_problem(config: TelegramConfig) -> str:
    for name, trigger in (
        ("trigger", config.trigger),
        *((f"chats.{id}", t) for id, t in config.chats.items()),
    ):
        if name != "trigger" and not _CHAT.fullmatch(name.removeprefix("chats.")):
            return f"{name}: a chat is named by its number, such as -1001234567890"
        if wrong := trigger_problem(trigger):
            return f"{name}: {wrong}"
    return ""
