"""`pilothouse discord`: the folder we were started in, behind one channel of Discord's, until somebody presses Ctrl-C.

No configuration is needed. Of a `.env` in the folder two names are read, and nothing else: the folder may be a stranger's.
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
    House,
    build_engines,
    channel_host,
    name_engine,
    open_house,
    reload_on_change,
)
from pilothouse.bootstrap.assembly import make_ports
from pilothouse.bootstrap.binding import Chosen, bind, pick_where_unsaid
from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.dedicated_notices import tell_edit, tell_troubles, welcome
from pilothouse.bootstrap.event_loop import calm_collector, run, say_leaving
from pilothouse.bootstrap.machine import adopt_orphans, is_alive, stop_on_signal, this_node, tilde
from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.config import VARIABLE as TOKEN
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.config import problem as problem_of
from pilothouse.config import Models, find_paths, load, read_env_names
from pilothouse.config.sources import ENVIRONMENT, FLAG, Leaf, in_file
from pilothouse.core.channel_status import note_served
from pilothouse.core.errors import ConfigError, RoleHeld
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Address
from pilothouse.core.store import Node, Tx
from pilothouse.plugins import Plugins
from pilothouse.runtime.gateway import Gateway

if TYPE_CHECKING:
    from pilothouse.channels.discord.doctor import Seen

CHANNEL = "DISCORD_CHANNEL_ID"
NO_CHANNEL = (
    f"No channel is named. Say `pilothouse discord --channel ID`, or put {CHANNEL}=ID into {{file}}. The ID: switch on "
    "Developer Mode in Discord's advanced settings, right-click the channel, Copy Channel ID."
)
NO_TOKEN = (
    f"No bot token is there. Make a bot at https://discord.com/developers/applications, and put {TOKEN}=… into {{house}}, "
    "or into {file} for this folder alone."
)
NO_ID = (
    "{source}: {said!r} is no channel's id. One is a long number: switch on Developer Mode in Discord's advanced settings, "
    "right-click the channel, Copy Channel ID."
)
HELD = {
    "pilothouse up": "`pilothouse up` runs here already (process {pid}). Either it serves this channel too: `pilothouse init` sets "
    "Discord up for it, and /bind gives a channel its folder; or stop it first: kill {pid}",
    "pilothouse discord": "`pilothouse discord` runs here already (process {pid}). For several folders at once run `pilothouse up`, and "
    "/bind a channel to each; or leave that one first, with Ctrl-C",
    "pilothouse chat": "`pilothouse chat` is open (process {pid}) and runs the engines. Leave it first; chats may be opened again "
    "beside this",
}
_ID = re.compile(r"\d{5,20}")


class Dedicated(Struct, frozen=True):
    """Where we live: a folder, and a channel. Without a `token` it is the house's."""

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
    """What a flag says, else the environment, else the folder's `.env`. Raises `ConfigError`."""
    file = folder / ".env"
    written = read_env_names(file, (TOKEN, CHANNEL)) if file.is_file() else {}  # some keep a virtualenv there
    sources = (("--channel", channel), (CHANNEL, environ.get(CHANNEL)), (str(file), written.get(CHANNEL)))
    source, said = next(((name, text) for name, text in sources if text), ("", ""))
    token = _own_token(environ, written, file)
    if not said:
        both = not token and not _house_token(environ)
        raise ConfigError(NO_CHANNEL.format(file=file) + (f" {_no_token(folder, environ)}" if both else ""))
    if not is_channel_id(said.strip()):
        raise ConfigError(NO_ID.format(source=source, said=said))
    return Dedicated(folder, said.strip(), token)


def _own_token(environ: Mapping[str, str], written: Mapping[str, str], file: Path) -> Leaf | None:
    if environ.get(TOKEN):
        return Leaf(environ[TOKEN], TOKEN, ENVIRONMENT)
    return Leaf(written[TOKEN], in_file(TOKEN, file), FLAG) if written.get(TOKEN) else None


def _house_token(environ: Mapping[str, str]) -> str:
    """The one that every folder may use."""
    models, flags = Models(channels={DISCORD: DiscordConfig}), {"channels.discord.enabled": True}
    settings = load(find_paths(environ), environ, models, flags).config.channels[DISCORD].settings
    return settings.token.reveal()


def _no_token(folder: Path, environ: Mapping[str, str]) -> str:
    return NO_TOKEN.format(house=find_paths(environ).env_file, file=folder / ".env")


def examine_dedicated(dedicated: Dedicated) -> str:
    """Who we are, and where, in words for a person. Raises `ConfigError` with what is wrong and what to do."""
    plugins = Plugins()
    plugins.channel(DISCORD)  # who lacks it is told so
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
    """Asks Discord about it, as our bot sees it."""
    from pilothouse.channels.discord.doctor import look_at

    return anyio.run(look_at, settings, channel)


def is_channel_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def run_dedicated(dedicated: Dedicated, where: str, chosen: Chosen) -> int:
    return run(partial(_serve, dedicated, where, chosen))


async def _serve(dedicated: Dedicated, where: str, chosen: Chosen) -> int:
    from pilothouse.channels.discord.dedicated import DedicatedChannel

    flags = dedicated.flags | ({"policy.approval_mode": chosen.mode} if chosen.mode else {})
    async with open_house(on_terminal=False, flags=flags) as house:
        await _refuse_beside_another(house)
        engine = await _move_in(house, dedicated, chosen)
        host = channel_host(house, DISCORD, apart=f"{DISCORD}-{dedicated.channel}")
        channel = DedicatedChannel(house.config.channels[DISCORD].settings, host)
        ports = make_ports(house, build_engines(house), {DISCORD: channel})
        gateway = Gateway(
            ports,
            this_node("pilothouse discord"),
            on_stopping=partial(say_leaving, house.config.gateway.grace_s),
        )
        ready = f"pilothouse {__version__} is ready · {tilde(dedicated.folder)} · {where} · {name_engine(house, engine)}"
        calm_collector()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(stop_on_signal, gateway.stop, hurry=gateway.hurry))
            tasks.start_soon(adopt_orphans)
            tasks.start_soon(reload_on_change, house, tell_edit)
            tasks.start_soon(tell_troubles, partial(gateway.health, DISCORD))
            tasks.start_soon(welcome, house, channel, dedicated.folder, f"{ready} · Ctrl-C leaves")
            await gateway.run()
            tasks.cancel_scope.cancel()
    return 0


async def _move_in(house: House, dedicated: Dedicated, chosen: Chosen) -> EngineId:
    """The channel works in the folder from now on, by this engine. The mode is not kept: others may serve it later."""
    place, folder = Address(DISCORD, dedicated.channel), dedicated.folder
    engine = await bind(house, place, folder, msgspec.structs.replace(chosen, mode=None), private=False)
    if chosen.mode is None:
        await pick_where_unsaid(house, folder, engine)
    await house.store.write(lambda tx: note_served(tx, DISCORD))
    return engine


async def _refuse_beside_another(house: House) -> None:
    """Before anything is asked or bound: whoever holds the engines may be meant to serve this channel, too."""

    def unit(tx: Tx) -> Node | None:
        return next((node for node in tx.nodes.list() if "engines" in node.roles), None)

    node = await house.store.read(unit)
    if node is None or node.lease_until < house.clock.now() or is_alive(node.info) is False:
        return
    text = HELD.get(node.info.name, "{name} runs the engines here already (process {pid}); stop it first")
    raise RoleHeld(text.format(name=node.info.name, pid=node.info.pid), role="engines", holder=node.info.name)
