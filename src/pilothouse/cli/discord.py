"""`pilothouse discord`: connects this folder to one Discord channel."""

from __future__ import annotations

import os
from pathlib import Path

import click

from pilothouse.cli.options import approval_mode_option, trust_option
from pilothouse.core.policy import parse_mode


@click.command("discord")
@click.option("--channel", metavar="ID", help="The channel to serve; or DISCORD_CHANNEL_ID.")
@click.option("--engine", help="Which engine answers.")
@click.option("--model", help="Which of the engine's models.")
@approval_mode_option
@click.option("--new", is_flag=True, help="Begin a new session.")
@trust_option
def command(
    channel: str | None,
    engine: str | None,
    model: str | None,
    approval_mode: str | None,
    new: bool,
    trusts: bool | None,
) -> int:
    """Connect this folder to one Discord channel: every message there goes to the engine.

    The bot's token is DISCORD_TOKEN: in the environment, in .env here, or in .env beside the configuration.
    """
    from pilothouse.bootstrap.binding import ChatOptions
    from pilothouse.bootstrap.dedicated import examine_dedicated, find_dedicated, run_dedicated
    from pilothouse.cli.trust import settle_trust

    dedicated = find_dedicated(Path.cwd(), os.environ, channel)
    where = examine_dedicated(dedicated)
    settle_trust([str(dedicated.folder)], trusts)
    mode = None if approval_mode is None else parse_mode(approval_mode)
    return run_dedicated(dedicated, where, ChatOptions(engine, model, mode, new))
