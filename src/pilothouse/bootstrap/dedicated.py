"""`pilothouse discord`: connects the current folder to one Discord channel, until Ctrl-C. Needs no configuration.

Only two names are read from a `.env` in the folder: a foreign repository may have written that file. It prints when it is
ready, a code for the first person, reloads, and trouble.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from msgspec import Struct

from pilothouse import __version__
from pilothouse.bootstrap.app import (
    App,
    build_engines,
    channel_host,
    name_engine,
    open_app,
    reload_on_change,
)
from pilothouse.bootstrap.assembly import make_ports
from pilothouse.bootstrap.binding import ChatOptions, ask_for_mode, bind
from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.machine import is_alive, this_node, tilde
from pilothouse.bootstrap.process import adopt_orphans, freeze_collector, run, say_leaving, stop_on_signal
from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.config import VARIABLE as TOKEN
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.config import problem as problem_of
from pilothouse.config import Models, find_paths, load, read_env_names
from pilothouse.config.sources import ENVIRONMENT, FLAG, Leaf, in_file
from pilothouse.core.errors import ConfigError, RoleHeld
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Address
from pilothouse.core.store import Node, Tx
from pilothouse.plugins import Plugins
from pilothouse.runtime.channel_status import note_served
from pilothouse.runtime.gateway import Gateway

if TYPE_CHECKING:
    from pilothouse.channels.discord.doctor import Seen
from collections.abc import Callable
from typing import Protocol

from pilothouse.bootstrap.app import reload_notice
from pilothouse.bootstrap.people import make_people, offer_code
from pilothouse.bootstrap.terminal_text import say
from pilothouse.config import Reloaded
from pilothouse.core.channel import ChannelHealth
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.people import People, allows
from pilothouse.runtime.roles import role_of

CHANNEL = "DISCORD_CHANNEL_ID"
NO_CHANNEL = (
    f"No channel is named. Run `pilothouse discord --channel ID`, or put {CHANNEL}=ID into {{file}}. To find the ID: switch "
    "on Developer Mode in Discord's advanced settings, right-click the channel, Copy Channel ID."
)
NO_TOKEN = (
    f"No bot token is set. Create a bot at https://discord.com/developers/applications, and put {TOKEN}=… into {{shared}}, "
    "or into {file} for this folder alone."
)
NO_ID = (
    "{source}: {said!r} is not a channel id. An id is a long number: switch on Developer Mode in Discord's advanced settings, "
    "right-click the channel, Copy Channel ID."
)
HELD = {
    "pilothouse up": "`pilothouse up` runs here already (process {pid}). Either it serves this channel too: `pilothouse init` sets "
    "Discord up for it, and /bind gives a channel its folder; or stop it first: kill {pid}",
    "pilothouse discord": "`pilothouse discord` runs here already (process {pid}). For several folders at once run `pilothouse up`, and "
    "/bind a channel to each; or leave that one first, with Ctrl-C",
    "pilothouse chat": "`{name}` is open (process {pid}) and runs the engines. Leave it first; chats may be opened again "
    "beside this",
}
HELD_BY_OTHER = "{name} runs the engines here already (process {pid}); stop it first"
_ID = re.compile(r"\d{5,20}")


class Dedicated(Struct, frozen=True):
    """A folder and its channel. Without a `token`, the configured one is used."""

    folder: Path
    channel: str
    token: Leaf | None = None

    @property
    def flags(self) -> dict[str, Any]:
        said = {
            "channels.discord.enabled": True,
            "channels.discord.dedicated": self.channel,
            "gateway.default_workspace": str(self.folder),
        }
        return said | ({"channels.discord.token": self.token} if self.token else {})


def find_dedicated(folder: Path, environ: Mapping[str, str], channel: str | None) -> Dedicated:
    """Reads channel and token from the flag, else the environment, else the folder's `.env`. Raises `ConfigError`."""
    file = folder / ".env"
    # A folder `.env` is a virtual environment.
    written = read_env_names(file, (TOKEN, CHANNEL)) if file.is_file() else {}
    sources = (("--channel", channel), (CHANNEL, environ.get(CHANNEL)), (str(file), written.get(CHANNEL)))
    source, said = next(((name, text) for name, text in sources if text), ("", ""))
    token = _own_token(environ, written, file)
    if not said:
        both = not token and not _shared_token(environ)
        raise ConfigError(NO_CHANNEL.format(file=file) + (f" {_no_token(folder, environ)}" if both else ""))
    if not is_channel_id(said.strip()):
        raise ConfigError(NO_ID.format(source=source, said=said))
    return Dedicated(folder, said.strip(), token)


def _own_token(environ: Mapping[str, str], written: Mapping[str, str], file: Path) -> Leaf | None:
    if environ.get(TOKEN):
        return Leaf(environ[TOKEN], TOKEN, ENVIRONMENT)
    return Leaf(written[TOKEN], in_file(TOKEN, file), FLAG) if written.get(TOKEN) else None


def _shared_token(environ: Mapping[str, str]) -> str:
    """Returns the token that the configuration has for every folder."""
    models, flags = Models(channels={DISCORD: DiscordConfig}), {"channels.discord.enabled": True}
    settings = load(find_paths(environ), environ, models, flags).config.channels[DISCORD].settings
    return settings.token.reveal()


def _no_token(folder: Path, environ: Mapping[str, str]) -> str:
    return NO_TOKEN.format(shared=find_paths(environ).env_file, file=folder / ".env")


def examine_dedicated(dedicated: Dedicated) -> str:
    """Describes the channel and the bot for a person. Raises `ConfigError` with the problem and its fix."""
    plugins = Plugins()
    plugins.channel(DISCORD)  # raises if it is not installed
    settings = load_checked(plugins, dedicated.flags).config.channels[DISCORD].settings
    assert isinstance(settings, DiscordConfig)
    if not settings.token:
        raise ConfigError(_no_token(dedicated.folder, os.environ))
    if problem := problem_of(settings):
        raise ConfigError(f"Discord: {problem}")
    seen = look_at_channel(settings, dedicated.channel)
    if seen.problem:
        raise ConfigError(f"Discord: {seen.problem}")
    return f"#{seen.channel} of {seen.server}, as {seen.bot}"


def look_at_channel(settings: DiscordConfig, channel: str) -> Seen:
    """Asks Discord about the channel, as our bot."""
    from pilothouse.channels.discord.doctor import look_at

    return anyio.run(look_at, settings, channel)


def is_channel_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def run_dedicated(dedicated: Dedicated, where: str, chosen: ChatOptions) -> int:
    return run(partial(_serve, dedicated, where, chosen))


async def _serve(dedicated: Dedicated, where: str, chosen: ChatOptions) -> int:
    from pilothouse.channels.discord.channel import DedicatedChannel

    flags = dedicated.flags | ({"policy.approval_mode": chosen.mode} if chosen.mode else {})
    async with open_app(on_terminal=False, flags=flags) as app:
        await _refuse_second_gateway(app)
        engine = await _bind_channel(app, dedicated, chosen)
        host = channel_host(app, DISCORD, folder=f"{DISCORD}-{dedicated.channel}")
        channel = DedicatedChannel(app.config.channels[DISCORD].settings, host)
        ports = make_ports(app, build_engines(app), {DISCORD: channel})
        gateway = Gateway(
            ports,
            this_node("pilothouse discord"),
            on_stopping=partial(say_leaving, app.config.gateway.grace_s),
        )
        ready = f"pilothouse {__version__} is ready · {tilde(dedicated.folder)} · {where} · {name_engine(app, engine)}"
        freeze_collector()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(stop_on_signal, gateway.stop, stop_now=gateway.stop_now))
            tasks.start_soon(adopt_orphans)
            tasks.start_soon(reload_on_change, app, report_edit)
            tasks.start_soon(report_trouble, partial(gateway.health, DISCORD))
            tasks.start_soon(welcome, app, channel, dedicated.folder, f"{ready} · Ctrl-C leaves")
            await gateway.run()
            tasks.cancel_scope.cancel()
    return 0


async def _bind_channel(app: App, dedicated: Dedicated, chosen: ChatOptions) -> EngineId:
    """Binds the channel to the folder and returns its engine. The mode is not stored: `up` may serve the channel later."""
    place, folder = Address(DISCORD, dedicated.channel), dedicated.folder
    bound = await bind(app, place, folder, msgspec.structs.replace(chosen, mode=None), private=False)
    if chosen.mode is None:
        await ask_for_mode(app, folder, bound.engine)
    await app.store.write(lambda tx: note_served(tx, DISCORD))
    return bound.engine


async def _refuse_second_gateway(app: App) -> None:
    """Raises `RoleHeld` if another process runs the engines, before anything is asked or bound."""

    def unit(tx: Tx) -> Node | None:
        return next((node for node in tx.nodes.list() if "engines" in node.roles), None)

    node = await app.store.read(unit)
    if node is None or node.lease_until < app.clock.now() or is_alive(node.info) is False:
        return
    name, pid = node.info.name, node.info.pid
    text = next((text for program, text in HELD.items() if name.startswith(program)), HELD_BY_OTHER)
    raise RoleHeld(text.format(name=name, pid=pid), role="engines", holder=name)


LOOK_EVERY_S = 1.0
OPEN_S = 600.0
CODE = """\
Nobody is let in here yet. Send this in the channel, as a message, within {minutes:.0f} minutes:

    {code}

The first who sends it is let in as {role}."""
LET_IN = "{name} is let in as {role}. What they write in the channel is answered."
CODE_IS_OVER = "That code has expired; here is a new one."
WORKS_AGAIN = "Discord works again."


class Listener(Protocol):
    id: ChannelId

    async def listening(self) -> None: ...


async def welcome(app: App, channel: Listener, folder: Path, ready: str) -> None:
    """Prints `ready` once the channel listens; then offers pairing codes until someone is let in."""
    await channel.listening()
    say(ready)
    prefix, workspace = f"{channel.id}:", str(folder)

    def find_first(tx: Tx) -> tuple[str, str] | None:
        return find_person(tx, make_people(app.config), prefix, workspace)

    if await app.store.read(find_first):
        return
    while not (found := await _offer_until(app, find_first)):
        say(CODE_IS_OVER)
    name, role = found
    say(LET_IN.format(name=name, role=role))


async def _offer_until(
    app: App, find_first: Callable[[Tx], tuple[str, str] | None]
) -> tuple[str, str] | None:
    """Shows a code and returns who came in with it; None if it expired unused."""
    at = app.clock.now()
    made = await app.store.write(lambda tx: offer_code(tx, app.config, at=at, open_s=OPEN_S))
    say(CODE.format(code=made.code, role=made.role, minutes=OPEN_S / 60))
    with anyio.move_on_after(OPEN_S):
        while not (found := await app.store.read(find_first)):
            await anyio.sleep(LOOK_EVERY_S)
        return found
    return None


def find_person(tx: Tx, people: People, prefix: str, workspace: str) -> tuple[str, str] | None:
    """Returns name and role of someone on this channel who may talk in the folder."""
    granted = {grant.user: grant.name for grant in tx.people.everybody()}
    known: dict[UserId, str] = dict.fromkeys(people.roles, "") | granted
    known |= {user: "" for roles in people.workspaces.values() for user in roles if user not in known}
    for user, name in known.items():
        role = role_of(tx, people, user, workspace)
        if user.startswith(prefix) and allows(role, "desk.accept"):
            return name or user, role
    return None


async def report_trouble(health: Callable[[], ChannelHealth]) -> None:
    """Prints each change of the channel's trouble once; the log goes to its file only."""
    told = ""
    while True:
        trouble = health().trouble
        if trouble != told:
            say(trouble or WORKS_AGAIN)
            told = trouble
        await anyio.sleep(LOOK_EVERY_S)


def report_edit(result: Reloaded) -> None:
    if text := reload_notice(result):
        say(text)
