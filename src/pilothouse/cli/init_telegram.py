"""The part of `pilothouse init` that sets up Telegram: the token is tried before it is kept, and a link pairs."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from msgspec import Struct

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.init_bots import ask_bot, meet, settings_of, table_of
from pilothouse.cli.init_existing import Standing
from pilothouse.core.errors import ConfigError

NAME = "telegram"
QUESTION = "Telegram bot token from @BotFather, or nothing"


class TelegramBot(Struct, frozen=True):
    token: str
    link: str
    api_base: str = ""


def ask_telegram(wanted: bool | None, api_base: str, yes: bool, standing: Standing) -> TelegramBot | None:
    """The bot whose token somebody gave."""
    return ask_bot(NAME, QUESTION, wanted, yes, standing, partial(_try, api_base, standing))


def _try(api_base: str, standing: Standing, token: str) -> TelegramBot:
    met = meet(NAME, settings_of(NAME, standing, token, api_base=api_base))
    if met.problem:
        raise ConfigError(f"Telegram: {met.problem}")
    print(f"this is {met.name}")
    return TelegramBot(token, met.link, api_base)


def telegram_table(bot: TelegramBot, standing: Standing) -> dict[str, Any]:
    return table_of(NAME, standing, api_base=bot.api_base)


def offer_link(bot: TelegramBot) -> None:
    """A link that lets in whoever opens it first; where there is an owner already, as a member."""
    from pilothouse.cli.pair import offer

    code, role = offer(None, "", 10.0)
    say(
        f"start `pilothouse up`, then open this within 10 minutes to be let in as {role}:\n  {bot.link}?start={code}",
        sys.stdout,
    )
