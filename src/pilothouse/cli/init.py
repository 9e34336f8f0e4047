"""`pilothouse init`: sets Pilothouse up in at most four questions, and changes it later. Every answer is also a flag."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
import tomllib
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.files import write_private, writing
from pilothouse.cli.init_bots import BOTS, Bot, BotFlags, ask_bot, bot_table, invite, store_token
from pilothouse.cli.init_file import Answers, ExistingConfig, read_existing, render
from pilothouse.cli.options import NoContradiction, address_of_api, approval_mode_option, trust_option
from pilothouse.cli.question import ask_for, ask_yes
from pilothouse.cli.trust import settle_trust
from pilothouse.config import AUTO, InvalidConfig, Paths, find_paths, load
from pilothouse.config.model import Person
from pilothouse.core.errors import ConfigError
from pilothouse.core.policy import MODES, parse_mode
from pilothouse.core.store import Tx

BROKEN = "Start over? None of its values are offered, and a backup is kept."
AGAIN = "Changing {file}: Enter keeps each value, Ctrl-C changes nothing."
LEFT = "not set in this shell: {names}; settings that use them stay as they are written"
NEEDS = "Next: set {names} in {file} or in the environment, then run pilothouse init again"
FOLDER_QUESTION = "Folder that the agent works in"
CHAT_QUESTION = "Chat app ({names}, or none)"
MODE_QUESTION = (
    "What the agent may do without asking: minimal (read), trusted (also edit files there), full-access"
)
NO_AGENT = "No coding agent works here yet, so the demo answers. To get one:"
NOT_LOGGED_IN = "Your coding agent is not logged in yet:"
MORE_AGENTS = "  … and {count} more: pilothouse engines"
MOST_AGENTS = 3
NEEDS_NO_PROGRAM = "  {title} needs an API key only, and asks for it: pilothouse chat --engine {id}"
NOT_WORKING = "The engine that you chose does not work here yet:"
APPROVALS = "When you leave the terminal, approvals come to your private chat with the bot (`route` in config.toml changes that)."
NONE = "none"


class Wanted(Struct, frozen=True):
    """Flags about channels; None if a flag is not given."""

    telegram: bool | None
    telegram_api: str
    discord: bool | None
    discord_channel: str
    discord_api: str

    def of(self, channel: str) -> BotFlags:
        if channel == "telegram":
            return BotFlags(self.telegram_api)
        return BotFlags(self.discord_api, self.discord_channel)

    @property
    def flags(self) -> dict[str, bool | None]:
        return {"telegram": self.telegram, "discord": self.discord}

    def decided(self, name: str) -> bool:
        """Returns true if a flag says yes or no about this channel; a yes for one channel says no for the others."""
        return self.flags[name] is not None or any(self.flags.values())


class Given(Struct, frozen=True):
    """Flags about everything else; None or empty if a flag is not given."""

    workspace: str | None
    engine: str | None
    owners: tuple[str, ...]
    approval_mode: str | None


@click.command("init", cls=NoContradiction)
@click.option("--workspace", type=click.Path(), help="The folder that engines work in.")
@click.option("--engine", help="The engine that answers by default, or auto.")
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="CHANNEL:ID",
    help="An owner besides those who pair, such as telegram:12345. Repeatable.",
)
@click.option(
    "--telegram/--no-telegram",
    default=None,
    help="Set Telegram up. The token is TELEGRAM_TOKEN, or asked for.",
)
@click.option(
    "--telegram-api", callback=address_of_api, default="", metavar="URL", help="A Bot API server of your own."
)
@click.option(
    "--discord/--no-discord", default=None, help="Set Discord up. The token is DISCORD_TOKEN, or asked for."
)
@click.option(
    "--discord-channel", default="", metavar="ID", help="A channel where the bot answers every message."
)
@click.option(
    "--discord-api",
    callback=address_of_api,
    default="",
    metavar="URL",
    help="The address of Discord's API, if not Discord's own.",
)
@click.option(
    "--yes", is_flag=True, help="Ask nothing: take the flags, else the existing values or the defaults."
)
@approval_mode_option
@trust_option
def command(
    workspace: str | None,
    engine: str | None,
    owners: tuple[str, ...],
    yes: bool,
    approval_mode: str | None,
    trusts: bool | None,
    **channels: Any,
) -> None:
    """Set Pilothouse up, in at most four questions. Run it again to change something: the old file is kept."""
    paths, wanted = find_paths(os.environ), Wanted(**channels)
    given = Given(workspace, engine, owners, approval_mode)
    existing = _read_or_refuse(paths, may_ask=not yes and sys.stdin.isatty())
    answers, bots = _ask_all(given, wanted, yes, existing)
    changed = [bot for bot in bots if not bot.is_kept]
    tables = {bot.channel: bot_table(bot, existing) for bot in changed}
    text = render(answers, existing, tables, [name for name, flag in wanted.flags.items() if flag is False])
    _check(paths, text, answers, existing)
    _write(paths, text)
    for bot in changed:
        store_token(paths, bot.channel, bot.token)
    if unset := ExistingConfig(tomllib.loads(text), names=existing.names).unset:  # the store needs them
        say(NEEDS.format(names=", ".join(unset), file=paths.env_file), sys.stdout)
        return
    settle_trust([answers.workspace], trusts, ask=False)
    if not yes and answers.approval_mode is None:
        _keep_mode(answers.workspace)
    for text in (_missing_agent(), APPROVALS if bots else ""):
        if text:
            say(text, sys.stdout)
    say(invite(bots[0]) if bots else _next_chat(answers.workspace), sys.stdout)


def _next_chat(workspace: str) -> str:
    """Name the folder: a chat opens in the current one otherwise."""
    elsewhere = os.path.realpath(os.path.expanduser(workspace)) != os.path.realpath(".")
    return (
        f"Next: pilothouse chat --workspace {shlex.quote(workspace)}"
        if elsewhere
        else "Next: pilothouse chat"
    )


def _missing_agent() -> str:
    """Says how to install or log into the engine that shall answer, or any; empty if one works, or the demo is wanted."""
    from pilothouse.bootstrap.app import DEMO
    from pilothouse.bootstrap.configuration import load_checked
    from pilothouse.bootstrap.engine_reports import report
    from pilothouse.plugins import Loaded, Plugins
    from pilothouse.runtime.engine_report import state_line

    plugins = Plugins()
    config = load_checked(plugins).config
    wanted = config.gateway.default_engine
    found = [row for row in plugins.engines() if isinstance(row, Loaded) and row.spec.id != DEMO]
    if wanted != AUTO:
        found = [row for row in found if row.spec.id == plugins.engine(wanted).id]
    found.sort(key=lambda row: row.spec.login is None)  # first those whose login we can check
    rows = [report(row, config) for row in found]
    if not rows or any(row.works for row in rows):
        return ""
    if there := [row for row in rows if row.status.available]:
        return "\n".join([NOT_LOGGED_IN, *(f"  {row.title}: {state_line(row)}" for row in there)])
    lines = [f"  {row.title}: {state_line(row)}" for row in rows[:MOST_AGENTS]]
    lines += [MORE_AGENTS.format(count=len(rows) - MOST_AGENTS)] if len(rows) > MOST_AGENTS else []
    lines += [NEEDS_NO_PROGRAM.format(title=row.title, id=row.id) for row in rows if row.status.asks]
    return "\n".join([NO_AGENT if wanted == AUTO else NOT_WORKING, *lines])


def _read_or_refuse(paths: Paths, *, may_ask: bool) -> ExistingConfig:
    """Returns the existing values; nothing if there is no file. Only a person may give up a broken file."""
    if not paths.config_file.exists():
        return ExistingConfig()
    existing = _show(paths)
    if existing is not None:
        if may_ask:
            say(AGAIN.format(file=paths.config_file), sys.stdout)
        return existing
    if not (may_ask and ask_yes(BROKEN, default=False)):
        raise ConfigError("nothing was changed; fix the file, or move it away to start over")
    return ExistingConfig()


def _ask_all(given: Given, wanted: Wanted, yes: bool, existing: ExistingConfig) -> tuple[Answers, list[Bot]]:
    """Asks for the folder, the chat app, its token, and how much needs no question; flags answer in advance."""
    answers = ask(given, yes, existing)
    flags = [name for name, flag in wanted.flags.items() if flag]
    names = flags or ([] if yes else _ask_channel(wanted, existing))
    tried = [ask_bot(name, wanted.of(name), yes, existing, required=bool(flags)) for name in names]
    mode = given.approval_mode or (None if yes else _ask_mode(existing))
    return msgspec.structs.replace(answers, approval_mode=mode), [bot for bot in tried if bot]


def _ask_channel(wanted: Wanted, existing: ExistingConfig) -> list[str]:
    """Asks which chat app to set up; one whose flag says no is not offered."""
    from pilothouse.plugins import Plugins

    installed = Plugins().names("channels")
    names = [name for name in BOTS if name in installed and not wanted.decided(name)]
    if not names:
        return []
    there = next((name for name in names if existing.has_channel(name)), None)
    default = there or (NONE if existing.config else names[0])

    def parse(said: str) -> list[str]:
        word = said.strip().lower()
        if word not in (*names, NONE):
            raise click.BadParameter(f"{said!r} is not one of them: write {', '.join(names)} or none")
        return [] if word == NONE else [word]

    return ask_for(CHAT_QUESTION.format(names=", ".join(names)), default, value_proc=parse)


def _ask_mode(existing: ExistingConfig) -> str | None:
    """Asks for the approval mode. None leaves the file without one: what the file says, no chat can change."""
    last = existing.value("policy", "approval_mode", None) or MODES[0]

    def parse(said: str) -> str:
        try:
            return parse_mode(said.strip().lower())
        except ConfigError as error:
            raise click.BadParameter(str(error)) from error

    mode = ask_for(MODE_QUESTION, last, value_proc=parse)
    is_unsaid = "approval_mode" not in existing.table("policy")
    return None if is_unsaid and mode == last else mode


def _keep_mode(workspace: str) -> None:
    """Keeps the narrowest mode as the person's choice for the folder, so that a chat there does not ask again."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.cli.store import write_store
    from pilothouse.runtime.conversations.binding import pick_mode, picked_mode

    def unit(tx: Tx) -> None:
        if picked_mode(tx, os.path.realpath(workspace)) is None:
            pick_mode(tx, workspace, MODES[0], time.time(), terminal_user())

    write_store(unit)


def _write(paths: Paths, text: str) -> None:
    """Writes the file and keeps the old one, unless nothing has changed."""
    file = paths.config_file
    if file.exists() and file.read_text(encoding="utf-8") == text:
        print(f"{file} stays as it is")
        return
    with writing(file):
        backup = keep_backup(file)
    write_private(file, text)
    if backup:
        print(f"the old file is kept as {backup}")
    print(f"wrote {file}")


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


def _summary(existing: ExistingConfig) -> list[tuple[str, str]]:
    """Lists the settings of our own sections; those of adapters may be secrets."""
    rows = [
        (f"{s}.{k}", json.dumps(v, default=str))
        for s in ("gateway", "people")
        for k, v in existing.table(s).items()
    ]
    return rows + [(f"channels.{name}", "…") for name in existing.table("channels")]


def ask(given: Given, yes: bool, existing: ExistingConfig) -> Answers:
    """Asks for the folder if no flag names it, and takes the rest from flags or from the existing file."""
    owners = tuple(_person(owner) for owner in given.owners) or existing.value("people", "owners", ())
    last = existing.value("gateway", "default_engine", AUTO)
    engine = last if given.engine is None else _known_engine(given.engine)
    workspace = given.workspace
    if workspace is None:
        here = existing.value("gateway", "default_workspace", "") or str(Path.cwd())
        folder = partial(_folder, existing)
        workspace = here if yes else ask_for(FOLDER_QUESTION, here, value_proc=folder)
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


def _folder(existing: ExistingConfig, said: str) -> str:
    if not _is_unset(existing, said) and not Path(said).expanduser().is_dir():
        raise click.BadParameter(f"{said} is not a folder; create it first, or name another")
    return said


def _check(paths: Paths, text: str, answers: Answers, existing: ExistingConfig) -> None:
    """Loads the new text before it is written, except for names that were there and are not set here."""
    if not _is_unset(existing, answers.workspace) and not Path(answers.workspace).is_dir():
        raise ConfigError(
            f"--workspace: {answers.workspace} is not a folder; create it first: mkdir -p {shlex.quote(answers.workspace)}"
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
