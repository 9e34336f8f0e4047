"""The bots of `pilothouse init`: Telegram's and Discord's.

A token is tried before it is stored, and stored in `.env` only, which only its owner can read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.files import write_private
from pilothouse.cli.init_file import ExistingConfig, token_variable
from pilothouse.cli.question import ask_for, ask_yes
from pilothouse.config import Paths
from pilothouse.core.channel import BotIdentity
from pilothouse.core.errors import ConfigError

T = TypeVar("T")

TELEGRAM = "telegram"
TELEGRAM_QUESTION = "Telegram bot token from @BotFather, or nothing"
DISCORD = "discord"
DISCORD_QUESTION = "Discord bot token (https://discord.com/developers/applications, page Bot), or nothing"
CHANNEL_QUESTION = "Id of a channel where every message is for it (right-click, Copy Channel ID), or nothing"


class TelegramBot(Struct, frozen=True):
    token: str
    link: str
    api_base: str = ""


class DiscordBot(Struct, frozen=True):
    token: str
    api_base: str = ""
    channel: str = ""
    """The id of a channel where the bot reacts to every message; elsewhere only to its name."""
    place: str = ""
    """The name of that channel."""


def ask_telegram(
    wanted: bool | None, api_base: str, yes: bool, existing: ExistingConfig
) -> TelegramBot | None:
    try_token = partial(_try_telegram, api_base, existing)
    return _ask_bot(TELEGRAM, TELEGRAM_QUESTION, wanted, yes, existing, try_token)


def ask_discord(
    wanted: bool | None, channel: str, api_base: str, yes: bool, existing: ExistingConfig
) -> DiscordBot | None:
    """Asks for the token, shows the link that invites the bot, and asks for its first channel."""
    try_token = partial(_try_discord, api_base, yes, existing)
    found = _ask_bot(DISCORD, DISCORD_QUESTION, wanted, yes, existing, try_token)
    if found is None:
        return None
    token, settings = found
    chosen, place = _ask_channel(settings, channel, yes)
    return DiscordBot(token, api_base, chosen, place)


def telegram_table(bot: TelegramBot, existing: ExistingConfig) -> dict[str, Any]:
    return _table(TELEGRAM, existing, api_base=bot.api_base)


def discord_table(bot: DiscordBot, existing: ExistingConfig) -> dict[str, Any]:
    table = _table(DISCORD, existing, api_base=bot.api_base)
    if bot.channel:
        places = table.get("per_channel", {})
        table["per_channel"] = {**places, bot.channel: {**places.get(bot.channel, {}), "mode": "all"}}
    return table


def store_token(paths: Paths, channel: str, token: str) -> None:
    """Writes the token into .env, beside what else is there."""
    file, name = paths.env_file, token_variable(channel)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = [line for line in before.splitlines() if not re.match(rf"\s*(export\s+)?{name}\s*=", line)]
    write_private(file, "\n".join([*lines, f"{name}={token}"]) + "\n")
    if os.environ.get(name, "").strip() not in ("", token):
        say(f"the token is in {file}, but {name} in the environment overrides it: unset that", sys.stdout)


def offer_link(bot: TelegramBot) -> None:
    """Shows a link that lets in the first who opens it: as owner, or as member if there is an owner."""
    from pilothouse.cli.pair import offer

    code, role = offer(None, "", 10.0)
    say(
        f"start `pilothouse up`, then open this within 10 minutes to be let in as {role}:\n  {bot.link}?start={code}",
        sys.stdout,
    )


def offer_code(bot: DiscordBot) -> None:
    """Shows a code that lets in the first who sends it: as owner, or as member if there is an owner."""
    from pilothouse.cli.pair import offer

    code, role = offer(None, "", 10.0)
    where = f"in {bot.place}, or privately to the bot," if bot.place else "privately to the bot"
    say(
        f"start `pilothouse up`, then send this {where} within 10 minutes to be let in as {role}:\n  {code}",
        sys.stdout,
    )


def _ask_bot(
    channel: str,
    question: str,
    wanted: bool | None,
    yes: bool,
    existing: ExistingConfig,
    try_token: Callable[[str], T],
) -> T | None:
    """Returns the tried bot; None if the channel is not wanted, stays as it is, or is not installed.

    On a terminal a token that does not work is asked for again: earlier answers are kept, and the next token is not
    pasted into the shell.
    """
    from pilothouse.plugins import Plugins

    if wanted is False or (yes and not wanted) or channel not in Plugins().names("channels"):
        return None
    variable = token_variable(channel)
    token = from_environment = os.environ.get(variable, "").strip()
    question += f" to leave {channel} as it is" if existing.has_channel(channel) else ""
    while True:
        if not token and not yes:
            token = ask_for(question, hidden=True).strip()
        if not token and wanted:
            token = _existing_token(channel, existing)
        try:
            if not token and wanted:
                raise ConfigError(f"--{channel} needs a token: set {variable}, or answer the question.")
            return try_token(token) if token else None
        except ConfigError as error:
            if yes or not sys.stdin.isatty():
                raise
            is_set = token and token == from_environment
            by = f" (it came from {variable} in the environment)" if is_set else ""
            say(f"no: {error}{by}", sys.stdout)
            token = ""


def _existing_token(channel: str, existing: ExistingConfig) -> str:
    token = getattr(existing.channel(channel), "token", None)
    return token.reveal() if token else ""


def _try_telegram(api_base: str, existing: ExistingConfig, token: str) -> TelegramBot:
    met = _meet(TELEGRAM, _settings(TELEGRAM, existing, token, api_base=api_base))
    if met.problem:
        raise ConfigError(f"Telegram: {met.problem}")
    print(f"this is {met.name}")
    return TelegramBot(token, met.link, api_base)


def _try_discord(api_base: str, yes: bool, existing: ExistingConfig, token: str) -> tuple[str, Any]:
    """Returns the token, and settings that work with it."""
    settings = _settings(DISCORD, existing, token, api_base=api_base)
    met = _meet_discord(settings, yes)
    say(f"this is {met.name}; open this to invite it to your server:\n  {met.link}", sys.stdout)
    return token, settings


def _meet_discord(settings: Any, yes: bool) -> BotIdentity:
    """Asks Discord who the bot is; a missing intent can be switched on in a browser, then it is tried again."""
    while (met := _meet(DISCORD, settings)).problem:
        if yes or not met.name:
            raise ConfigError(f"Discord: {met.problem}")
        say(f"this is {met.name}, but {met.problem}", sys.stdout)
        if not ask_yes("Try again?", default=True):
            raise ConfigError(f"Discord: {met.problem}")
    return met


def _ask_channel(settings: Any, channel: str, yes: bool) -> tuple[str, str]:
    if channel:
        place, problem = _look(settings, channel)
        if problem:
            raise ConfigError(f"--discord-channel: {problem}")
        return channel, place
    while not yes:
        answer = ask_for(CHANNEL_QUESTION).strip()
        if not answer:
            break
        place, problem = _look(settings, answer)
        if not problem:
            return answer, place
        say(f"no: {problem}", sys.stdout)
    return "", ""


def _look(settings: Any, channel: str) -> tuple[str, str]:
    """Returns the channel's name, and why it cannot be used."""
    from pilothouse.bootstrap.dedicated import is_channel_id, look_at_channel

    if not is_channel_id(channel):
        return "", f"{channel!r} is not a channel id; an id is a long number"
    seen = look_at_channel(settings, channel)
    return f"#{seen.channel} of {seen.server}", seen.problem


def _settings(channel: str, existing: ExistingConfig, token: str, **more: str) -> Any:
    """Returns the channel's settings with this token. Raises `ConfigError` if they cannot work."""
    from pilothouse.core.secret import Secret
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(channel)
    given = {name: value for name, value in more.items() if value}
    settings = replace(existing.channel(channel) or spec.config(), token=Secret(token), **given)
    if problem := spec.problem(settings):
        raise ConfigError(f"{spec.title}: {problem}")
    return settings


def _meet(channel: str, settings: Any) -> BotIdentity:
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(channel)
    assert spec.meet is not None, "our own channel says who it is"
    return spec.meet(settings)


def _table(channel: str, existing: ExistingConfig, **more: str) -> dict[str, Any]:
    """Returns the channel's section as it was, less its token, which is in .env."""
    kept = {
        name: value
        for name, value in existing.table("channels", channel).items()
        if name not in ("token", "enabled")
    }
    return kept | {name: value for name, value in more.items() if value}
