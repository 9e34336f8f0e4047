"""`pilothouse pair`: shows a code that lets in the first person who sends it, from any channel."""

from __future__ import annotations

import sys
import time

import click

from pilothouse.bootstrap.terminal_text import columns_of, say
from pilothouse.cli.options import json_option
from pilothouse.cli.store import existing_folder, load_plain, write_store
from pilothouse.cli.table import print_json
from pilothouse.config import ALWAYS_ON
from pilothouse.core.ids import ChannelId
from pilothouse.core.people import Role

TELEGRAM = "telegram"
TEXT = """\
{code}

Send this to Pilothouse as a message: alone, or as /pair {code}
It works once, for {minutes:g} minutes, and lets the first who sends it in as {role}{where}. A new code ends this one."""
NOWHERE = """\
No channel is on, so nobody can send this anywhere yet. Set one up first: pilothouse init"""


@click.command("pair")
@click.option(
    "--role", type=click.Choice(("owner", "admin", "member")), help="Default: owner if there is none yet."
)
@click.option("--workspace", metavar="PATH", help="Only in this folder and below it.")
@click.option(
    "--minutes", type=click.FloatRange(0.1, 60), default=10.0, show_default=True, help="How long it is valid."
)
@json_option
def command(role: Role | None, workspace: str | None, minutes: float, as_json: bool) -> None:
    """Show a code that lets somebody in. It is valid once, and for a short time."""
    folder = existing_folder(workspace) if workspace else ""
    shown, given = offer(role, folder, minutes)
    if not any(row.enabled for id, row in load_plain().config.channels.items() if id != ALWAYS_ON):
        say(NOWHERE)
    if as_json:
        document = {"code": shown, "role": given, "workspace": folder, "expires_in_s": minutes * 60}
        print_json(document)
        return
    where = f" of {folder}" if folder else ""
    say(TEXT.format(code=shown, minutes=minutes, role=given, where=where), sys.stdout)
    if (columns := columns_of(sys.stdout)) is not None and (link := _telegram_link(shown)):
        say(f"Or open this link on a phone that has Telegram:\n  {link}", sys.stdout)
        print_qr(link, columns)


def _telegram_link(code: str) -> str:
    """Asks Telegram for the bot's name. Empty if Telegram is not set up or does not answer."""
    from pilothouse.bootstrap.configuration import load_checked
    from pilothouse.cli.channels import channel_identity
    from pilothouse.plugins import Plugins

    plugins = Plugins()
    channel = load_checked(plugins).config.channels.get(ChannelId(TELEGRAM))
    if channel is None or not channel.enabled:
        return ""
    link = channel_identity(plugins.channel(TELEGRAM), channel).link
    return f"{link}?start={code}" if link else ""


def offer(role: Role | None, folder: str, minutes: float) -> tuple[str, Role]:
    """Stores a new code; returns it with the role that it gives."""
    from pilothouse.bootstrap.people import offer_code as store_code

    config, at = load_plain().config, time.time()
    made = write_store(
        lambda tx: store_code(tx, config, at=at, open_s=minutes * 60, role=role, folder=folder)
    )
    return made.code, made.role


BORDER = 2
WHITE_ON_BLACK = "\x1b[97;40m"
RESET = "\x1b[0m"


def render_qr(link: str) -> str:
    """Renders two rows of modules per line, in colours of its own: a code in the colours of a light terminal is inverted."""
    from io import StringIO

    import segno

    out = StringIO()
    segno.make(link, error="l", micro=False).terminal(out, compact=True, border=BORDER)
    return "\n".join(f"{WHITE_ON_BLACK}{line}{RESET}" for line in out.getvalue().splitlines())


def print_qr(link: str, columns: int | None) -> None:
    """Prints the code on a terminal that is wide enough, and nothing elsewhere."""
    if columns is None or "utf" not in (sys.stdout.encoding or "").lower():
        return
    code = render_qr(link)
    if columns >= len(code.split("\n", 1)[0]) - len(WHITE_ON_BLACK + RESET):
        print(code)
