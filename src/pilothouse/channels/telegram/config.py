"""The section `[channels.telegram]` and its checks."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from pilothouse.core.channel import IdForm
from pilothouse.core.secret import Secret, and_put, put_missing, without_login
from pilothouse.core.trigger import Trigger, trigger_problem

API_BASE = "https://api.telegram.org"
VARIABLE = "TELEGRAM_TOKEN"
USER_IDS = IdForm(re.compile("-?[0-9]{1,20}"), "a number, such as 12345")
"""Negative where a channel or a group writes in its own name."""

_TOKEN = re.compile(r"\d{1,20}:[A-Za-z0-9_-]{1,100}", re.ASCII)
"""Includes the forms that some keyboards write: no address has them, but a mistyped login may."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_CHAT = re.compile(r"-?\d{1,20}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{16,256}")


class Endpoint(Struct, frozen=True):
    """A bot at a Bot API server.

    A self-hosted server has its own `api_base`; `file_base` is `api_base` and `/file` unless it is given. Without
    `proxy` the environment's `HTTPS_PROXY` counts."""

    token: Secret
    api_base: str = API_BASE
    file_base: str = ""
    proxy: str = ""

    @property
    def files(self) -> str:
        return self.file_base or f"{self.api_base.rstrip('/')}/file"

    @property
    def shown(self) -> str:
        """The server's address without a login, for messages to people."""
        return without_login(self.api_base)

    @property
    def files_shown(self) -> str:
        return f"{without_login(self.file_base)} (file_base)" if self.file_base else f"{self.shown}/file"

    @property
    def proxy_shown(self) -> str:
        return without_login(self.proxy)

    @property
    def token_is_plausible(self) -> bool:
        return _TOKEN.fullmatch(self.token.reveal()) is not None


class WebhookConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """Telegram calls `url`; a reverse proxy that does TLS forwards to `host` and `port`."""

    url: str = ""
    secret: Secret = Secret("")
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="a port, from 1 to 65535")] = 8443
    path: str = "/telegram"


class TelegramConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`chats` maps a group's number to its trigger; `trigger` is for all other groups."""

    token: Secret = Secret("")
    api_base: str = API_BASE
    file_base: str = ""
    proxy: str = ""
    mode: Literal["poll", "webhook"] = "poll"
    webhook: WebhookConfig = WebhookConfig()
    trigger: Trigger = Trigger()
    chats: dict[str, Trigger] = field(default_factory=dict)
    final: Literal["new", "edit"] = "new"
    """An answer is a new message, which makes a sound, or an edit of the progress message."""
    forward_wait_s: Annotated[float, Meta(ge=0, le=10, description="seconds, from 0 to 10")] = 0.3
    """Time that a text waits for forwards that belong to it."""
    reactions: bool = False
    """A reaction to a message of ours starts a turn."""
    steps: bool = True
    """Answers list the commands that ran and the files that changed, folded."""

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.token, self.api_base, self.file_base, self.proxy)


def problem(config: TelegramConfig) -> str:
    """Return the first problem with its fix, or an empty string."""
    if not config.token:
        return f"the bot token is missing: @BotFather gives one; {put_missing(config.token, VARIABLE)}"
    if not config.endpoint.token_is_plausible:
        how = f"copy it again from @BotFather{and_put(config.token)}"
        return f"the bot token does not look like one (123456:ABC…): {how}"
    return (
        _address_problem(config)
        or _webhook_problem(config)
        or _trigger_problem(config)
        or _environment_problem(config)
    )


def _address_problem(config: TelegramConfig) -> str:
    for name in ("api_base", "file_base", "proxy"):
        value = getattr(config, name)
        if value and not _is_http(value):
            return f"{name} is {without_login(value)!r}; write http://HOST:PORT or https://HOST"
    return ""


def _is_http(address: str) -> bool:
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return has_host and parts.scheme in ("http", "https") and not any(map(str.isspace, address))


def _environment_problem(config: TelegramConfig) -> str:
    """Report a proxy or certificates of the environment that the HTTP library would refuse at the start."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        path = os.environ.get(name)
        if path and not any(Path(part).exists() for part in path.split(os.pathsep)):
            return f"{name}={path} in the environment names nothing that exists: correct it, or unset it"
    for name in () if config.proxy else (*_PROXIES, *map(str.lower, _PROXIES)):
        value = os.environ.get(name, "")
        if value and not _is_http(value if "://" in value else f"http://{value}"):
            return (
                f"{name}={without_login(value)} in the environment cannot be used, only http:// and https:// "
                "proxies can: set `proxy` in [channels.telegram], or unset it"
            )
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
