"""The part of `pilothouse init` that sets up Discord: token and intent are tried, a link invites, a first channel is chosen."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from msgspec import Struct

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.init_bots import ask_bot, meet, settings_of, table_of
from pilothouse.cli.init_existing import Standing
from pilothouse.cli.question import ask_for, ask_yes
from pilothouse.core.channel import BotIdentity
from pilothouse.core.errors import ConfigError

NAME = "discord"
QUESTION = "Discord bot token (https://discord.com/developers/applications, page Bot), or nothing"
CHANNEL_QUESTION = "Id of a channel where every message is for it (right-click, Copy Channel ID), or nothing"


class DiscordBot(Struct, frozen=True):
    token: str
    api_base: str = ""
    channel: str = ""
    """The id of a channel in which everything is heard; elsewhere, its name."""
    place: str = ""
    """How people know that channel."""


def ask_discord(
    wanted: bool | None, channel: str, api_base: str, yes: bool, standing: Standing
) -> DiscordBot | None:
    """The bot whose token somebody gave, invited and with its first channel, if they chose one."""
    found = ask_bot(NAME, QUESTION, wanted, yes, standing, partial(_try, api_base, yes, standing))
    if found is None:
        return None
    token, settings = found
    chosen, place = _ask_channel(settings, channel, yes)
    return DiscordBot(token, api_base, chosen, place)


def _try(api_base: str, yes: bool, standing: Standing, token: str) -> tuple[str, Any]:
    """The token, and settings that work with it."""
    settings = settings_of(NAME, standing, token, api_base=api_base)
    met = _meet(settings, yes)
    say(f"this is {met.name}; open this to invite it to your server:\n  {met.link}", sys.stdout)
    return token, settings


def _meet(settings: Any, yes: bool) -> BotIdentity:
    """An intent is switched on in a browser, and then tried again."""
    while (met := meet(NAME, settings)).problem:
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
        said = ask_for(CHANNEL_QUESTION).strip()
        if not said:
            break
        place, problem = _look(settings, said)
        if not problem:
            return said, place
        say(f"no: {problem}", sys.stdout)
    return "", ""


def _look(settings: Any, channel: str) -> tuple[str, str]:
    """What the channel is called, or why nobody can talk to us there."""
    from pilothouse.bootstrap.dedicated import is_channel_id, look_at_channel

    if not is_channel_id(channel):
        return "", f"{channel!r} is no channel's id; one is a long number"
    seen = look_at_channel(settings, channel)
    return f"#{seen.channel} of {seen.server}", seen.problem


def discord_table(bot: DiscordBot, standing: Standing) -> dict[str, Any]:
    table = table_of(NAME, standing, api_base=bot.api_base)
    if bot.channel:
        places = table.get("per_channel", {})
        table["per_channel"] = {**places, bot.channel: {**places.get(bot.channel, {}), "mode": "all"}}
    return table


def offer_code(bot: DiscordBot) -> None:
    """A code that lets in whoever sends it first; where there is an owner already, as a member."""
    from pilothouse.cli.pair import offer

    code, role = offer(None, "", 10.0)
    where = f"in {bot.place}, or privately to the bot," if bot.place else "privately to the bot"
    say(
        f"start `pilothouse up`, then send this {where} within 10 minutes to be let in as {role}:\n  {code}",
        sys.stdout,
    )
