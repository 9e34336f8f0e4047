"""The section `[channels.webhook]` and its checks. Every hook has a secret of its own, also on loopback: a web page that
somebody opens on this machine can call a port here."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from pilothouse.core.channel import IdForm
from pilothouse.core.ids import ChannelId
from pilothouse.core.message import Address
from pilothouse.core.secret import Secret

WEBHOOK = ChannelId("webhook")
HOOK_IDS = IdForm(re.compile(r"[a-z0-9][a-z0-9_-]{0,40}"), "the name of a hook, such as ci")
SECRET_CHARS = 16
_PLACE = re.compile(r"[^:\s]+:\S+")


class HookConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`conversation` is woken by a call; without one, those that watch the pull request are. `secret` signs each body (HMAC-SHA256); `token` is sent as a bearer token."""

    conversation: str = ""
    preset: Literal["json", "github"] = "json"
    secret: Secret = Secret("")
    token: Secret = Secret("")
    events: tuple[str, ...] = ()
    """Events that start a turn; empty means all."""
    prompt: str = ""
    """The owner's instructions, with `{a.b}` for values of the body; empty shows the body as the preset does."""


class WebhookConfig(Struct, frozen=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="a port, from 1 to 65535")] = 8786
    hooks: dict[str, HookConfig] = field(default_factory=dict)

    def address(self, name: str) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}{path_of(name)}"


def path_of(name: str) -> str:
    return f"/hooks/{name}"


def parse_place(conversation: str) -> Address:
    """Return the address of a conversation, written as `pilothouse sessions` shows it: `telegram:12345#7`."""
    channel, _, rest = conversation.partition(":")
    place, mark, thread = rest.partition("#")
    plain = place.replace("%23", "#").replace("%25", "%")
    return Address(
        ChannelId(channel.replace("%3A", ":").replace("%25", "%")), plain, thread if mark else None
    )


def problem(config: WebhookConfig) -> str:
    """Return the first problem with its fix, or an empty string."""
    if not config.hooks:
        return "it has no hook: add a section [channels.webhook.hooks.NAME] with `conversation` and `secret`"
    return next(filter(None, (_hook_problem(name, hook) for name, hook in config.hooks.items())), "")


def _hook_problem(name: str, hook: HookConfig) -> str:
    if not HOOK_IDS.pattern.fullmatch(name):
        return f"the hook {name!r} needs another name: small letters, digits, - and _, at most 40"
    watches = hook.preset == "github" and not hook.conversation
    if not watches and not _PLACE.fullmatch(hook.conversation):
        return (
            f"the hook {name} wakes no conversation: set `conversation`, such as telegram:12345; "
            "`pilothouse sessions` shows them"
        )
    if bool(hook.secret) == bool(hook.token):
        variable = f"{name.upper().replace('-', '_')}_SECRET"
        missing = f'write secret = "${{{variable}}}" into its section, and {variable}=… into .env'
        how = (
            "it has a secret and a token: remove one" if hook.secret else f"its secret is missing: {missing}"
        )
        return f"the hook {name} cannot tell who calls: {how}"
    if hook.preset == "github" and hook.token:
        return f"the hook {name} has a token, but GitHub signs with a secret: set `secret` instead"
    if len((hook.secret or hook.token).reveal()) < SECRET_CHARS:
        return f"the secret of the hook {name} is shorter than {SECRET_CHARS} characters: `openssl rand -hex 32` makes one"
    return ""
