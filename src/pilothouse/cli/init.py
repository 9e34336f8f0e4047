"""`pilothouse init`: a first configuration, question by question. Every answer is also a flag."""

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
from pilothouse.cli.init_bots import keep_token
from pilothouse.cli.init_discord import ask_discord, discord_table, offer_code
from pilothouse.cli.init_existing import Standing, read_standing
from pilothouse.cli.init_telegram import ask_telegram, offer_link, telegram_table
from pilothouse.cli.init_text import Answers, render
from pilothouse.cli.options import NoContradiction, address_of_api, trust_option
from pilothouse.cli.question import ask_for, ask_yes
from pilothouse.cli.trust import settle_trust
from pilothouse.config import AUTO, InvalidConfig, Paths, find_paths, load
from pilothouse.config.model import Person
from pilothouse.core.errors import ConfigError, PluginError

NOBODY = "nobody"
USABLE = "Replace it? What it says is offered, and a backup is kept."
BROKEN = "Begin anew? Nothing of it is offered, and a backup is kept."
LEFT = "not set here: {names}; what names it stays as it is written"
NEEDS = "next: set {names} in {file} or in the environment; then pilothouse doctor, trust and pair have what they need"


class Wanted(Struct, frozen=True):
    """What flags say about channels: None where they say nothing."""

    telegram: bool | None
    telegram_api: str
    discord: bool | None
    discord_channel: str
    discord_api: str

    @property
    def said(self) -> dict[str, bool | None]:
        return {"telegram": self.telegram, "discord": self.discord}

    def asks(self, name: str) -> bool | None:
        """Whoever names one channel is asked about no other."""
        return False if self.said[name] is None and any(self.said.values()) else self.said[name]


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
    "--yes", is_flag=True, help="Ask nothing: take the flags, else what stands there or the defaults."
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace a configuration that exists; what it says is offered, and a backup is kept.",
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
    paths, standing = find_paths(os.environ), Standing()
    if paths.config_file.exists():
        found = _show(paths)
        if not _may_replace(yes, force, usable=found is not None):
            _leave_alone(usable=found is not None)
            return
        standing = found or standing
    answers = ask(workspace, engine, owners, yes, standing)
    wanted = Wanted(**bots)
    on_telegram = ask_telegram(wanted.asks("telegram"), wanted.telegram_api, yes, standing)
    on_discord = ask_discord(
        wanted.asks("discord"), wanted.discord_channel, wanted.discord_api, yes, standing
    )
    tried = {"telegram": telegram_table(on_telegram, standing)} if on_telegram else {}
    tried |= {"discord": discord_table(on_discord, standing)} if on_discord else {}
    text = render(answers, standing, tried, [name for name, said in wanted.said.items() if said is False])
    _check(paths, text, answers, standing)
    with writing(paths.config_file):
        backup = keep_backup(paths.config_file)
    write_private(paths.config_file, text)
    if backup:
        print(f"the old one is kept as {backup}")
    print(f"wrote {paths.config_file}")
    for name, bot in (("telegram", on_telegram), ("discord", on_discord)):
        if bot:
            keep_token(paths, name, bot.token)
    if unset := Standing(tomllib.loads(text), names=standing.names).unset:  # nothing opens the store without
        say(NEEDS.format(names=", ".join(unset), file=paths.env_file), sys.stdout)
        return
    settle_trust([answers.workspace], trusts, ask=not yes)
    print("next: pilothouse doctor, then pilothouse chat")
    if on_discord:
        offer_code(on_discord)
    elif on_telegram:
        offer_link(on_telegram)


def _show(paths: Paths) -> Standing | None:
    """Tells what stands in it; or where it is broken, and gives None."""
    file = paths.config_file
    try:
        standing = read_standing(paths)
    except InvalidConfig as error:
        say(f"{file} exists, and is broken:\n  {error}".replace("\n", "\n  "), sys.stdout)
        return None
    print(f"{file} exists:")
    for key, value in _summary(standing):
        print(f"  {key} = {value}")
    if standing.unset:
        say(f"  {LEFT.format(names=', '.join(standing.unset))}", sys.stdout)
    return standing


def _leave_alone(*, usable: bool) -> None:
    if not usable:
        raise ConfigError("nothing was changed; mend the file, or move it away to begin anew")
    print("nothing was changed; --force replaces it and keeps a backup")


def _may_replace(yes: bool, force: bool, *, usable: bool) -> bool:
    """Of a broken file nothing can be kept, so it takes a person who says so: it may have rules and people in it."""
    may_ask = not yes and sys.stdin.isatty()
    question = USABLE if usable else BROKEN
    return (force and usable) or (may_ask and ask_yes(question, default=False))


def _summary(standing: Standing) -> list[tuple[str, str]]:
    """The plain settings of our own sections: adapters' ones may be secrets."""
    rows = [
        (f"{s}.{k}", json.dumps(v, default=str))
        for s in ("gateway", "people")
        for k, v in standing.table(s).items()
    ]
    return rows + [(f"channels.{name}", "…") for name in standing.table("channels")]


def ask(
    workspace: str | None, engine: str | None, owners: tuple[str, ...], yes: bool, standing: Standing
) -> Answers:
    """Only what no flag answered is asked, and what stands there is offered."""
    owners = tuple(_person(owner) for owner in owners)
    engine = None if engine is None else _known_engine(engine)
    if workspace is None:
        here = standing.meant("gateway", "default_workspace", "") or str(Path.cwd())
        folder = partial(_folder, standing)
        workspace = here if yes else ask_for("Folder that engines work in", here, value_proc=folder)
    if engine is None:
        names, last = ", ".join((AUTO, *_engines())), standing.meant("gateway", "default_engine", AUTO)
        answer = partial(_engine_answer, last)
        engine = last if yes else ask_for(f"Engine ({names})", last, value_proc=answer)
    if not owners:
        last = standing.meant("people", "owners", ())
        question = f"Who may configure, as channel:id, or {NOBODY if last else 'nothing'}"
        answer = partial(_owners_answer, last)
        owners = last if yes else ask_for(question, ", ".join(last), value_proc=answer)
    if not _is_left(standing, workspace):
        workspace = str(Path(workspace).expanduser().absolute())
    return Answers(workspace, engine, owners)


def _is_left(standing: Standing, workspace: str) -> bool:
    """Whether it names what is not set here, and nobody here can say which folder that is."""
    return standing.leaves_unset("gateway", "default_workspace", workspace)


def _known_engine(name: str) -> str:
    """Before anything else is asked: nobody answers three questions to be told that the first was wrong."""
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
        raise ConfigError(
            f"{said!r} is nobody: who may configure is named as channel:id, such as telegram:12345"
        ) from None
    if why := person_problem(Plugins(), person):
        raise ConfigError(f"{said!r} is nobody: {why}")
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


def _folder(standing: Standing, said: str) -> str:
    if not _is_left(standing, said) and not Path(said).expanduser().is_dir():
        raise click.BadParameter(f"{said} is not a folder; make it first, or name another")
    return said


def _engines() -> list[str]:
    from pilothouse.plugins import Plugins

    return Plugins().names("engines")


def _check(paths: Paths, text: str, answers: Answers, standing: Standing) -> None:
    """Nothing is written that would be refused when it is read, but for names that stood there and are not set here."""
    if not _is_left(standing, answers.workspace) and not Path(answers.workspace).is_dir():
        raise ConfigError(
            f"--workspace: {answers.workspace} is not a folder; make it first: mkdir -p {answers.workspace}"
        )
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "config.toml"
        draft.write_text(text, encoding="utf-8")
        there = Paths(draft, paths.data_dir, paths.state_dir, paths.log_dir)
        load(there, standing.names, without_unset=bool(standing.unset))


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
