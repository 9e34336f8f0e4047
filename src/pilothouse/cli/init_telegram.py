"""The part of `pilothouse init` that sets up Telegram: the token is tried before it is kept, and a link pairs."""

from __future__ import annotations

import os
import re

import click
from msgspec import Struct

from pilothouse.cli.files import quote, write_private
from pilothouse.config import Paths
from pilothouse.core.errors import ConfigError

NAME = "telegram"
VARIABLE = "TELEGRAM_TOKEN"
QUESTION = "Telegram bot token from @BotFather, or nothing"


class Bot(Struct, frozen=True):
    token: str
    link: str
    api_base: str = ""


def ask_bot(wanted: bool | None, api_base: str, yes: bool) -> Bot | None:
    """The bot whose token somebody gave; None if nobody wants one, or the channel is not installed."""
    from pilothouse.plugins import Plugins

    plugins = Plugins()
    if wanted is False or (yes and not wanted) or NAME not in plugins.names("channels"):
        return None
    token = os.environ.get(VARIABLE, "")
    if not token and not yes:
        token = click.prompt(QUESTION, default="", show_default=False, hide_input=True)
    if not token:
        if wanted:
            raise ConfigError(f"--telegram needs a token: set {VARIABLE}, or answer the question.")
        return None
    return _meet(token.strip(), api_base)


def _meet(token: str, api_base: str) -> Bot:
    from pilothouse.core.secret import Secret
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(NAME)
    settings = spec.config(token=Secret(token), **({"api_base": api_base} if api_base else {}))
    if problem := spec.problem(settings):
        raise ConfigError(f"Telegram: {problem}")
    assert spec.meet is not None, "our own channel says who it is"
    met = spec.meet(settings)
    if met.problem:
        raise ConfigError(f"Telegram: {met.problem}")
    print(f"this is {met.name}")
    return Bot(token, met.link, api_base)


def section(bot: Bot) -> str:
    """The token is not in it: it is in .env, where it is found by itself."""
    base = f"api_base = {quote(bot.api_base)}\n" if bot.api_base else ""
    return f"\n[channels.{NAME}]\n# The token is {VARIABLE} in .env.\n{base}"


def keep_token(paths: Paths, bot: Bot) -> None:
    """Beside what else stands in .env, which only its owner may read."""
    file = paths.env_file
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = [line for line in before.splitlines() if not re.match(rf"\s*(export\s+)?{VARIABLE}\s*=", line)]
    write_private(file, "\n".join([*lines, f"{VARIABLE}={bot.token}"]) + "\n")


def offer_link(bot: Bot) -> None:
    """A link that lets in whoever opens it first; where there is an owner already, as a member."""
    from pilothouse.cli.pair import offer

    code, role = offer(None, "", 10.0)
    print(
        f"start `pilothouse up`, then open this within 10 minutes to be let in as {role}:\n  {bot.link}?start={code}"
    )
