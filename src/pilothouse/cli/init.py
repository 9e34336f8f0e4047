"""`pilothouse init`: a first configuration, question by question. Every answer is also a flag."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import Struct

from pilothouse.cli.files import quote, write_private
from pilothouse.cli.init_telegram import ask_bot, keep_token, offer_link, section
from pilothouse.cli.options import trust_option
from pilothouse.cli.trust_question import settle_trust
from pilothouse.config import AUTO, InvalidConfig, Paths, find_paths, load
from pilothouse.config.sources import read_toml
from pilothouse.core.errors import ConfigError, PluginError

TEMPLATE = """\
# `pilothouse config show` tells what is in force and where it came from,
# `pilothouse config check` what is wrong. Secrets belong into the file .env beside this one: NAME=value there,
# "${{NAME}}" here.

[gateway]
# The engine that answers where nobody chose another; "auto" takes the first that works here.
default_engine = {engine}
# The folder that engines work in where nobody chose another.
default_workspace = {workspace}
# What happens to a message that arrives during a turn: collect, queue, steer or interrupt.
busy = "collect"

[people]
# Who may configure, and who may talk: "channel:id". Whoever is in neither list is not let in.
owners = {owners}
members = []

# A channel is on when its section stands here:
# [channels.telegram]
# token = "${{TELEGRAM_TOKEN}}"
"""


class Answers(Struct, frozen=True):
    workspace: str
    engine: str
    owners: tuple[str, ...]


@click.command("init")
@click.option("--workspace", type=click.Path(), help="The folder that engines work in.")
@click.option("--engine", help="The engine that answers by default, or auto.")
@click.option("--owner", "owners", multiple=True, metavar="CHANNEL:ID", help="Who may configure. Repeatable.")
@click.option(
    "--telegram/--no-telegram",
    default=None,
    help="Set Telegram up; the token is asked for, or TELEGRAM_TOKEN.",
)
@click.option("--telegram-api", default="", metavar="URL", help="A Bot API server of your own.")
@click.option("--yes", is_flag=True, help="Ask nothing: take the flags and the defaults.")
@click.option("--force", is_flag=True, help="Replace a configuration that exists; a backup is kept.")
@trust_option
def command(
    workspace: str | None,
    engine: str | None,
    owners: tuple[str, ...],
    telegram: bool | None,
    telegram_api: str,
    yes: bool,
    force: bool,
    trusts: bool | None,
) -> None:
    """Write a first configuration, question by question."""
    paths = find_paths(os.environ)
    if paths.config_file.exists() and not _may_replace(paths.config_file, yes, force):
        print("nothing was changed; --force replaces it and keeps a backup")
        return
    answers = ask(workspace, engine, owners, yes)
    bot = ask_bot(telegram, telegram_api, yes)
    text = render(answers) + (section(bot) if bot else "")
    _check(paths, text, answers)
    backup = keep_backup(paths.config_file)
    write_private(paths.config_file, text)
    if backup:
        print(f"the old one is kept as {backup}")
    print(f"wrote {paths.config_file}")
    settle_trust([answers.workspace], trusts, ask=not yes)
    print("next: pilothouse doctor, then pilothouse chat")
    if bot:
        keep_token(paths, bot)
        offer_link(bot)


def _may_replace(file: Path, yes: bool, force: bool) -> bool:
    print(f"{file} exists:")
    for key, value in _summary(file):
        print(f"  {key} = {value}")
    if force:
        return True
    return not yes and sys.stdin.isatty() and click.confirm("Replace it? A backup is kept.", default=False)


def _summary(file: Path) -> list[tuple[str, str]]:
    """The plain settings of our own sections: adapters' ones may be secrets."""
    try:
        tree = read_toml(file)
    except InvalidConfig as error:
        return [("(broken)", str(error))]
    rows = [
        (f"{s}.{k}", json.dumps(v, default=str))
        for s in ("gateway", "people")
        for k, v in tree.get(s, {}).items()
    ]
    return rows + [(f"channels.{name}", "…") for name in tree.get("channels", {})]


def ask(workspace: str | None, engine: str | None, owners: tuple[str, ...], yes: bool) -> Answers:
    """Only what no flag answered is asked."""
    engine = None if engine is None else _known_engine(engine)
    if workspace is None:
        here = str(Path.cwd())
        workspace = (
            here if yes else click.prompt("Folder that engines work in", default=here, value_proc=_folder)
        )
    if engine is None:
        names = ", ".join((AUTO, *_engines()))
        engine = AUTO if yes else click.prompt(f"Engine ({names})", default=AUTO, value_proc=_engine_answer)
    if not owners and not yes:
        said = click.prompt("Who may configure, as channel:id, or nothing", default="", show_default=False)
        owners = tuple(said.replace(",", " ").split())
    return Answers(str(Path(workspace).expanduser().absolute()), engine, owners)


def _known_engine(name: str) -> str:
    """Before anything else is asked: nobody answers three questions to be told that the first was wrong."""
    if name != AUTO:
        from pilothouse.plugins import Plugins

        Plugins().engine(name)
    return name


def _engine_answer(said: str) -> str:
    try:
        return _known_engine(said.strip())
    except PluginError as error:
        raise click.BadParameter(str(error)) from error


def _folder(said: str) -> str:
    if not Path(said).expanduser().is_dir():
        raise click.BadParameter(f"{said} is not a folder; make it first, or name another")
    return said


def _engines() -> list[str]:
    from pilothouse.plugins import Plugins

    return Plugins().names("engines")


def render(answers: Answers) -> str:
    return TEMPLATE.format(
        engine=quote(answers.engine),
        workspace=quote(answers.workspace),
        owners="[" + ", ".join(map(quote, answers.owners)) + "]",
    )


def _check(paths: Paths, text: str, answers: Answers) -> None:
    """Nothing is written that would be refused when it is read."""
    if not Path(answers.workspace).is_dir():
        raise ConfigError(
            f"--workspace: {answers.workspace} is not a folder; make it first: mkdir -p {answers.workspace}"
        )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "config.toml"
        draft.write_text(text, encoding="utf-8")
        load(Paths(draft, paths.data_dir, paths.state_dir, paths.log_dir), {})


def keep_backup(file: Path) -> Path | None:
    if not file.exists():
        return None
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    backup = file.with_name(f"{file.name}.{stamp}.bak")
    number = 1
    while backup.exists():
        number += 1
        backup = file.with_name(f"{file.name}.{stamp}-{number}.bak")
    os.link(file, backup)
    return backup
