"""`pilothouse init`: writes a first configuration, question by question. Every answer is also a flag."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.files import write_private, writing
from pilothouse.cli.init_bots import (
    ask_discord,
    ask_telegram,
    discord_table,
    offer_code,
    offer_link,
    store_token,
    telegram_table,
)
from pilothouse.cli.init_file import Answers, ExistingConfig, read_existing, render
from pilothouse.cli.options import NoContradiction, address_of_api, trust_option
from pilothouse.cli.question import ask_for, ask_yes
from pilothouse.cli.trust import settle_trust
from pilothouse.config import AUTO, InvalidConfig, Paths, find_paths, load
from pilothouse.config.model import Person
from pilothouse.core.errors import ConfigError, PluginError

NOBODY = "nobody"
USABLE = "Replace it? Its values are offered as answers, and a backup is kept."
BROKEN = "Start over? None of its values are offered, and a backup is kept."
LEFT = "not set here: {names}; values that use it stay as written"
NEEDS = "next: set {names} in {file} or in the environment; pilothouse doctor, trust and pair need it"


class Wanted(Struct, frozen=True):
    """Flags about channels; None if a flag is not given."""

    telegram: bool | None
    telegram_api: str
    discord: bool | None
    discord_channel: str
    discord_api: str

    @property
    def flags(self) -> dict[str, bool | None]:
        return {"telegram": self.telegram, "discord": self.discord}

    def asks(self, name: str) -> bool | None:
        """Returns the flag; a flag for one channel answers no for the others."""
        return False if self.flags[name] is None and any(self.flags.values()) else self.flags[name]


@click.command("init", cls=NoContradiction)
@click.option("--workspace", type=click.Path(), help="The folder that engines work in.")
@click.option("--engine", help="The engine that answers by default, or auto.")
@click.option("--owner", "owners", multiple=True, metavar="CHANNEL:ID", help="Who may configure. Repeatable.")
@click.option(
    "--telegram/--no-telegram",
    default=None,
    help="Set Telegram up; the token is asked for, or TELEGRAM_TOKEN.",
)
@click.option(
    "--telegram-api", callback=address_of_api, default="", metavar="URL", help="A Bot API server of your own."
)
@click.option(
    "--discord/--no-discord", default=None, help="Set Discord up; the token is asked for, or DISCORD_TOKEN."
)
@click.option("--discord-channel", default="", metavar="ID", help="A channel where every message is for it.")
@click.option(
    "--discord-api",
    callback=address_of_api,
    default="",
    metavar="URL",
    help="Where Discord's API is, if not at Discord's.",
)
@click.option(
    "--yes", is_flag=True, help="Ask nothing: take the flags, else the existing values or the defaults."
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace an existing configuration; its values are offered as answers, and a backup is kept.",
)
@trust_option
def command(
    workspace: str | None,
    engine: str | None,
    owners: tuple[str, ...],
    yes: bool,
    force: bool,
    trusts: bool | None,
    **bots: Any,
) -> None:
    """Write a first configuration, question by question."""
    paths, existing = find_paths(os.environ), ExistingConfig()
    if paths.config_file.exists():
        found = _show(paths)
        if not _may_replace(yes, force, usable=found is not None):
            _leave_alone(usable=found is not None)
            return
        existing = found or existing
    answers = ask(workspace, engine, owners, yes, existing)
    wanted = Wanted(**bots)
    on_telegram = ask_telegram(wanted.asks("telegram"), wanted.telegram_api, yes, existing)
    on_discord = ask_discord(
        wanted.asks("discord"), wanted.discord_channel, wanted.discord_api, yes, existing
    )
    tables = {"telegram": telegram_table(on_telegram, existing)} if on_telegram else {}
    tables |= {"discord": discord_table(on_discord, existing)} if on_discord else {}
    text = render(answers, existing, tables, [name for name, flag in wanted.flags.items() if flag is False])
    _check(paths, text, answers, existing)
    with writing(paths.config_file):
        backup = keep_backup(paths.config_file)
    write_private(paths.config_file, text)
    if backup:
        print(f"the old file is kept as {backup}")
    print(f"wrote {paths.config_file}")
    for name, bot in (("telegram", on_telegram), ("discord", on_discord)):
        if bot:
            store_token(paths, name, bot.token)
    if unset := ExistingConfig(tomllib.loads(text), names=existing.names).unset:  # the store needs them
        say(NEEDS.format(names=", ".join(unset), file=paths.env_file), sys.stdout)
        return
    settle_trust([answers.workspace], trusts, ask=not yes)
    print("next: pilothouse doctor, then pilothouse chat")
    if on_discord:
        offer_code(on_discord)
    elif on_telegram:
        offer_link(on_telegram)


def _show(paths: Paths) -> ExistingConfig | None:
    """Prints the existing values; or the problems of a broken file, and returns None."""
    file = paths.config_file
    try:
        existing = read_existing(paths)
    except InvalidConfig as error:
        say(f"{file} exists, and is broken:\n  {error}".replace("\n", "\n  "), sys.stdout)
        return None
    print(f"{file} exists:")
    for key, value in _summary(existing):
        print(f"  {key} = {value}")
    if existing.unset:
        say(f"  {LEFT.format(names=', '.join(existing.unset))}", sys.stdout)
    return existing


def _leave_alone(*, usable: bool) -> None:
    if not usable:
        raise ConfigError("nothing was changed; fix the file, or move it away to start over")
    print("nothing was changed; --force replaces it and keeps a backup")


def _may_replace(yes: bool, force: bool, *, usable: bool) -> bool:
    """Lets only a person replace a broken file: nothing of it can be kept, and it may contain rules and people."""
    may_ask = not yes and sys.stdin.isatty()
    question = USABLE if usable else BROKEN
    return (force and usable) or (may_ask and ask_yes(question, default=False))


def _summary(existing: ExistingConfig) -> list[tuple[str, str]]:
    """Lists the settings of our own sections; those of adapters may be secrets."""
    rows = [
        (f"{s}.{k}", json.dumps(v, default=str))
        for s in ("gateway", "people")
        for k, v in existing.table(s).items()
    ]
    return rows + [(f"channels.{name}", "…") for name in existing.table("channels")]


def ask(
    workspace: str | None, engine: str | None, owners: tuple[str, ...], yes: bool, existing: ExistingConfig
) -> Answers:
    """Asks what no flag answers, and offers the existing values."""
    owners = tuple(_person(owner) for owner in owners)
    engine = None if engine is None else _known_engine(engine)
    if workspace is None:
        here = existing.value("gateway", "default_workspace", "") or str(Path.cwd())
        folder = partial(_folder, existing)
        workspace = here if yes else ask_for("Folder that engines work in", here, value_proc=folder)
    if engine is None:
        names, last = ", ".join((AUTO, *_engines())), existing.value("gateway", "default_engine", AUTO)
        answer = partial(_engine_answer, last)
        engine = last if yes else ask_for(f"Engine ({names})", last, value_proc=answer)
    if not owners:
        last = existing.value("people", "owners", ())
        question = f"Who may configure, as channel:id, or {NOBODY if last else 'nothing'}"
        answer = partial(_owners_answer, last)
        owners = last if yes else ask_for(question, ", ".join(last), value_proc=answer)
    if not _is_unset(existing, workspace):
        workspace = str(Path(workspace).expanduser().absolute())
    return Answers(workspace, engine, owners)


def _is_unset(existing: ExistingConfig, workspace: str) -> bool:
    """Returns true if the folder uses a name that is not set here, so it cannot be checked."""
    return existing.keeps_unset("gateway", "default_workspace", workspace)


def _known_engine(name: str) -> str:
    """Raises `PluginError` for an unknown engine, before further questions are asked."""
    if name != AUTO:
        from pilothouse.plugins import Plugins

        Plugins().engine(name)
    return name


def _person(said: str) -> str:
    from pilothouse.bootstrap.people import person_problem
    from pilothouse.plugins import Plugins

    try:
        person = msgspec.convert(said, Person)
    except msgspec.ValidationError:
        raise ConfigError(f"{said!r} is not a user id: write channel:id, such as telegram:12345") from None
    if why := person_problem(Plugins(), person):
        raise ConfigError(f"{said!r} cannot be anyone's id: {why}")
    return person


def _owners_answer(last: Sequence[str], said: str) -> tuple[str, ...]:
    words = said.replace(",", " ").split()
    try:
        return () if words == [NOBODY] else tuple(word if word in last else _person(word) for word in words)
    except ConfigError as error:
        raise click.BadParameter(str(error)) from error


def _engine_answer(last: str, said: str) -> str:
    try:
        return last if said == last else _known_engine(said.strip())
    except PluginError as error:
        raise click.BadParameter(str(error)) from error


def _folder(existing: ExistingConfig, said: str) -> str:
    if not _is_unset(existing, said) and not Path(said).expanduser().is_dir():
        raise click.BadParameter(f"{said} is not a folder; create it first, or name another")
    return said


def _engines() -> list[str]:
    from pilothouse.plugins import Plugins

    return Plugins().names("engines")


def _check(paths: Paths, text: str, answers: Answers, existing: ExistingConfig) -> None:
    """Loads the new text before it is written, except for names that were there and are not set here."""
    if not _is_unset(existing, answers.workspace) and not Path(answers.workspace).is_dir():
        raise ConfigError(
            f"--workspace: {answers.workspace} is not a folder; create it first: mkdir -p {answers.workspace}"
        )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "config.toml"
        draft.write_text(text, encoding="utf-8")
        there = Paths(draft, paths.data_dir, paths.state_dir, paths.log_dir)
        load(there, existing.names, without_unset=bool(existing.unset))


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
