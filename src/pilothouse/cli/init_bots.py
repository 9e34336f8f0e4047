"""The bots of `pilothouse init`: Telegram's and Discord's.

A token is tried before it is stored, and stored in `.env` only, which only its owner can read.
"""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.bootstrap.terminal_text import columns_of, say
from pilothouse.cli.files import write_private
from pilothouse.cli.init_file import ExistingConfig, token_variable
from pilothouse.cli.pair import print_qr
from pilothouse.cli.question import ask_for, ask_yes
from pilothouse.config import Paths
from pilothouse.core.channel import BotIdentity
from pilothouse.core.errors import ConfigError

TELEGRAM = "telegram"
DISCORD = "discord"
BOTS = (TELEGRAM, DISCORD)
QUESTIONS = {
    TELEGRAM: "Telegram bot token, from @BotFather",
    DISCORD: "Discord bot token, from https://discord.com/developers/applications, page Bot",
}
KEEP = " (Enter keeps the present one)"
SKIP = " (Enter skips it)"
OPEN_MINUTES = 10.0


class BotFlags(Struct, frozen=True):
    """Flags about one bot; empty if a flag is not given."""

    api_base: str
    place_id: str = ""


class Bot(Struct, frozen=True):
    channel: str
    token: str
    link: str
    api_base: str = ""
    place_id: str = ""
    """The id of a Discord channel where the bot reacts to every message; elsewhere only to its name."""
    place: str = ""
    """The name of that channel."""
    is_kept: bool = False
    """True if its section and its token stay as they are."""


def ask_bot(
    channel: str, flags: BotFlags, yes: bool, existing: ExistingConfig, *, required: bool
) -> Bot | None:
    """Asks for the token unless it is there, and tries it. Returns None if nothing was answered, or an old one fails.

    On a terminal a token that does not work is asked for again: earlier answers are kept, and the next token is not
    pasted into the shell.
    """
    variable = token_variable(channel)
    token = from_environment = os.environ.get(variable, "").strip()
    present = _existing_token(channel, existing)
    while True:
        if not token and not yes:
            token = ask_for(QUESTIONS[channel] + (KEEP if present else SKIP), hidden=True).strip()
        is_kept = token in ("", present) and bool(present)
        if not token and not present and not required:
            return None
        try:
            if not token and not present:
                raise ConfigError(f"--{channel} needs a token: set {variable}, or answer the question.")
            return _try_token(channel, token or present, flags, yes, existing, is_kept=is_kept)
        except ConfigError as error:
            if yes or not sys.stdin.isatty():
                raise
            by = (
                f" (it came from {variable} in the environment)"
                if token and token == from_environment
                else ""
            )
            say(f"{error}{by}", sys.stdout)
            if is_kept:
                return None
            token = ""


def _try_token(
    channel: str, token: str, flags: BotFlags, yes: bool, existing: ExistingConfig, *, is_kept: bool
) -> Bot:
    """Asks the platform who the bot is. Raises `ConfigError` if the token does not work."""
    settings = _settings(channel, existing, token, api_base=flags.api_base)
    met = _meet_discord(settings, yes) if channel == DISCORD else _identify(channel, settings)
    if met.problem:
        raise ConfigError(f"Telegram: {met.problem}")
    bot = Bot(
        channel, token, met.link, flags.api_base, is_kept=is_kept and not (flags.api_base or flags.place_id)
    )
    if channel == TELEGRAM:
        print(f"This is {met.name}.")
        return bot
    print_qr(met.link, columns_of(sys.stdout))
    say(f"This is {met.name}. Open this to invite it to your server:\n  {met.link}", sys.stdout)
    place, problem = _look(settings, flags.place_id) if flags.place_id else ("", "")
    if problem:
        raise ConfigError(f"--discord-channel: {problem}")
    return replace(bot, place_id=flags.place_id, place=place)


def bot_table(bot: Bot, existing: ExistingConfig) -> dict[str, Any]:
    """Returns the channel's section of the configuration."""
    table = _table(bot.channel, existing, api_base=bot.api_base)
    if bot.place_id:
        places = table.get("per_channel", {})
        table["per_channel"] = {**places, bot.place_id: {**places.get(bot.place_id, {}), "mode": "all"}}
    return table


def store_token(paths: Paths, channel: str, token: str) -> None:
    """Writes the token into .env, beside what else is there."""
    file, name = paths.env_file, token_variable(channel)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = [line for line in before.splitlines() if not re.match(rf"\s*(export\s+)?{name}\s*=", line)]
    write_private(file, "\n".join([*lines, f"{name}={token}"]) + "\n")
    if os.environ.get(name, "").strip() not in ("", token):
        say(f"the token is in {file}, but {name} in the environment overrides it: unset that", sys.stdout)


def invite(bot: Bot) -> str:
    """Shows the link or the code that lets in the first who uses it; returns the one next step."""
    from pilothouse.cli.pair import offer

    if _is_anyone_in(bot.channel):
        return "Next: pilothouse up"
    code, role = offer(None, "", OPEN_MINUTES)
    if bot.channel == TELEGRAM:
        link = f"{bot.link}?start={code}"
        print_qr(link, columns_of(sys.stdout))
        say(
            f"This link lets the first who opens it in, as {role}. It works once, for 10 minutes:\n  {link}",
            sys.stdout,
        )
        return "Next: pilothouse up, then open the link on your phone"
    where = f"in {bot.place}, or privately to the bot" if bot.place else "privately to the bot"
    say(
        f"This code lets the first who sends it in, as {role}. It works once, for 10 minutes:\n  {code}",
        sys.stdout,
    )
    return f"Next: pilothouse up, then send the code {where}"


def _is_anyone_in(channel: str) -> bool:
    """Returns true if an owner has already paired on this channel: they need no link."""
    from pilothouse.cli.store import read_store

    granted = read_store(lambda tx: tx.people.everybody()) or []
    return any(grant.user.startswith(f"{channel}:") and grant.role == "owner" for grant in granted)


def _existing_token(channel: str, existing: ExistingConfig) -> str:
    token = getattr(existing.channel(channel), "token", None)
    return token.reveal() if token else ""


def _meet_discord(settings: Any, yes: bool) -> BotIdentity:
    """Asks Discord who the bot is; a missing intent can be switched on in a browser, then it is tried again."""
    while (met := _identify(DISCORD, settings)).problem:
        if yes or not met.name:
            raise ConfigError(f"Discord: {met.problem}")
        say(f"This is {met.name}, but {met.problem}", sys.stdout)
        if not ask_yes("Try again?", default=True):
            raise ConfigError(f"Discord: {met.problem}")
    return met


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


def _identify(channel: str, settings: Any) -> BotIdentity:
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(channel)
    assert spec.identify is not None, "our own channel says who it is"
    return spec.identify(settings)


def _table(channel: str, existing: ExistingConfig, **more: str) -> dict[str, Any]:
    """Returns the channel's section as it was, less its token, which is in .env."""
    kept = {
        name: value
        for name, value in existing.table("channels", channel).items()
        if name not in ("token", "enabled")
    }
    return kept | {name: value for name, value in more.items() if value}
