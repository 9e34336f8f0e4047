"""The section `[channels.discord]`, and what may be wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from pilothouse.core.channel import IdForm
from pilothouse.core.secret import Secret, and_put, put_missing, without_login
from pilothouse.core.trigger import Mode, Trigger, trigger_problem

VARIABLE = "DISCORD_TOKEN"
API_BASE = "https://discord.com/api/v10"
GATEWAY_URL = "wss://gateway.discord.gg/"

_ID = re.compile(r"\d{5,20}", re.ASCII)
_TOKEN = re.compile(r"[\w.-]{20,200}", re.ASCII)

USER_IDS = IdForm(_ID, "a long number, such as 80351110224678912")


class Rules(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of one channel and its threads. `None` and an empty list mean: as everywhere.

    `mention` reacts to our name and to replies, `reply` to replies alone, `pattern` to what it matches, too.
    """

    mode: Mode | None = None
    pattern: str = ""
    words: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    reactions: bool | None = None


class DiscordConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`trigger`, `users` and `roles` hold everywhere; `per_channel` says otherwise for a channel and its threads.

    An empty list of users, roles or channels lets in everybody everywhere. A list lets nobody in: it only says who is
    heard, and what they may do is their role's business.
    """

    token: Secret = Secret("")
    api_base: str = API_BASE
    gateway_url: str = GATEWAY_URL
    cdn_base: str = ""
    proxy: str = ""
    message_content: bool = True
    """Off, we hear only what is said to us by name or in private, and need no privileged intent."""
    trigger: Trigger = Trigger()
    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    bots: tuple[str, ...] = ()
    """Ids of bots that are heard, if they mention us."""
    per_channel: dict[str, Rules] = field(default_factory=dict)
    dedicated: str = ""
    """The one channel that we live in: all that is said there is for us, and nothing that is said elsewhere."""
    reactions: bool = False
    final: Literal["new", "edit"] = "new"
    """`new`: an answer is a new message and makes a sound. `edit`: it replaces the progress silently."""
    steps: bool = True
    """Answers list the commands that ran and the files that changed, in small print."""


class Heard(Struct, frozen=True):
    """The rules of one place, put together from the whole configuration."""

    trigger: Trigger = Trigger()
    users: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    reactions: bool = False
    muted: bool = False
    """The channel is not on the list of channels that are heard."""
    dedicated: bool = False
    """We live in one channel alone, this one or another."""


def heard_in(config: DiscordConfig, *ids: str) -> Heard:
    """`ids` are the place's own and those that it inherits from, nearest first: a thread, its channel."""
    found = [config.per_channel[id] for id in ids if id in config.per_channel]
    listed = (config.dedicated,) if config.dedicated else config.channels
    everywhere = Trigger("all") if config.dedicated else config.trigger
    return Heard(
        next((trigger for rules in found if (trigger := _trigger(rules)) is not None), everywhere),
        next((rules.users for rules in found if rules.users), config.users),
        next((rules.roles for rules in found if rules.roles), config.roles),
        next((rules.reactions for rules in found if rules.reactions is not None), config.reactions),
        bool(listed) and not any(id in listed for id in ids),
        bool(config.dedicated),
    )


def _trigger(rules: Rules) -> Trigger | None:
    return None if rules.mode is None else Trigger(rules.mode, rules.pattern, rules.words)


def problem(config: DiscordConfig) -> str:
    """Return what is wrong with the configuration and how to fix it; empty if nothing is."""
    if not config.token:
        return (
            "the bot token is missing: make a bot at https://discord.com/developers/applications, and "
            + put_missing(config.token, VARIABLE)
        )
    if not _TOKEN.fullmatch(config.token.reveal()):
        return (
            "the bot token does not look like one (three parts with dots): copy it again from the page Bot "
            "of your application at https://discord.com/developers/applications" + and_put(config.token)
        )
    return _url_problem(config) or _id_problem(config) or _trigger_problem(config) or _intent_problem(config)


def _url_problem(config: DiscordConfig) -> str:
    for name in ("api_base", "cdn_base", "proxy"):
        value = getattr(config, name)
        if value and not re.match(r"https?://\S+$", value):
            return f"{name} is {without_login(value)!r}; it must begin with https:// or http://"
    if not re.match(r"wss?://\S+$", config.gateway_url):
        return f"gateway_url is {config.gateway_url!r}; it must begin with wss:// or ws://"
    return ""


def _id_problem(config: DiscordConfig) -> str:
    for name, id in _ids(config):
        if not _ID.fullmatch(id):
            return (
                f"{name}: {id!r} is not a Discord id; ids are long numbers (switch on Developer Mode in "
                "Discord's advanced settings, right-click, Copy ID)"
            )
    return ""


def _ids(config: DiscordConfig) -> Iterator[tuple[str, str]]:
    for name in ("users", "roles", "channels", "bots"):
        yield from ((name, id) for id in getattr(config, name))
    if config.dedicated:
        yield "dedicated", config.dedicated
    for place, rules in config.per_channel.items():
        yield "per_channel", place
        yield from ((f"per_channel.{place}", id) for id in (*rules.users, *rules.roles))


def _trigger_problem(config: DiscordConfig) -> str:
    for name, trigger in _triggers(config).items():
        if wrong := trigger_problem(trigger):
            return f"{name}: {wrong}"
    return ""


def _triggers(config: DiscordConfig) -> dict[str, Trigger]:
    places = {f"per_channel.{id}": _trigger(rules) for id, rules in config.per_channel.items()}
    return {"trigger": config.trigger} | {name: found for name, found in places.items() if found is not None}


def _intent_problem(config: DiscordConfig) -> str:
    """Find a setting that needs message content while `message_content` is off: those messages would arrive empty."""
    if config.message_content:
        return ""
    deaf = [name for name, trigger in _triggers(config).items() if trigger.mode in ("all", "pattern")]
    name = "dedicated" if config.dedicated else next(iter(deaf), "")
    if not name:
        return ""
    return (
        f"{name} wants to hear messages that do not name us, and message_content = false lets us read none of those: "
        "leave that out, and switch on the Message Content Intent on the page Bot of your application"
    )
