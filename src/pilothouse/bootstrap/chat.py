"""`pilothouse chat`: this terminal as a channel, in a gateway of its own or beside one that runs."""

from __future__ import annotations

import os
import signal
import stat
import sys
from functools import partial
from pathlib import Path

import anyio
import msgspec

from pilothouse import __version__
from pilothouse.bootstrap.house import (
    TERMINAL,
    House,
    build_engines,
    channel_host,
    default_engine,
    engine_names,
    name_engine,
    open_house,
)
from pilothouse.bootstrap.machine import adopt_orphans, stop_on_signal, this_node, tilde
from pilothouse.bootstrap.people import terminal_user
from pilothouse.bootstrap.picking import pick_where_unsaid
from pilothouse.bootstrap.running import run
from pilothouse.bootstrap.wiring import make_ports
from pilothouse.channels.terminal.config import Interactive, OneShot
from pilothouse.config import AUTO, in_workspace
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Address, conversation_id
from pilothouse.core.policy import ApprovalMode, parse_mode
from pilothouse.core.store import Conversation, Tx
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.wishes import Wishes, keep_wishes


def run_chat(
    *,
    text: str | None = None,
    as_json: bool = False,
    engine: str | None = None,
    model: str | None = None,
    workspace: str | None = None,
    approval_mode: str | None = None,
    new: bool = False,
    verbose: bool = False,
) -> int:
    """This terminal as a channel: a conversation in a folder, or one question and its answer."""
    folder = Path(workspace or os.getcwd()).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"The workspace {folder} does not exist. Create the folder, or name another.")
    said = None if approval_mode is None else parse_mode(approval_mode)
    return run(partial(_chat, folder, text, as_json, engine, model, said, new, verbose))


async def _chat(
    folder: Path,
    text: str | None,
    as_json: bool,
    engine: str | None,
    model: str | None,
    said: ApprovalMode | None,
    new: bool,
    verbose: bool,
) -> int:
    from pilothouse.channels.terminal.channel import TerminalChannel
    from pilothouse.channels.terminal.streams import system_streams

    async with open_house(on_terminal=False) as house:
        place = Address(TERMINAL, str(folder))
        chosen = await _bind(house, place, folder, engine, model, said, new=new)
        if said is None and text is None:
            await pick_where_unsaid(house, folder, chosen)
        terminal = TerminalChannel(
            house.config.channels[TERMINAL].settings,
            channel_host(house, TERMINAL),
            mode=_mode(text),
            streams=system_streams(),
            place=place.place,
            user=terminal_user().partition(":")[2],
            json=as_json,
            verbose=verbose,
            header="" if as_json else _header(house, chosen, folder),
        )
        ports = make_ports(house, build_engines(house), {TERMINAL: terminal})
        gateway = Gateway(
            ports,
            this_node("pilothouse chat"),
            primary=TERMINAL,
            standby=True,
            on_stopping=partial(_say_leaving, house),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_on_signal, gateway.stop, (signal.SIGTERM, signal.SIGHUP))
            tasks.start_soon(adopt_orphans)
            await gateway.run()
            tasks.cancel_scope.cancel()
        return terminal.exit_code


def _header(house: House, engine: EngineId, folder: Path) -> str:
    return f"pilothouse {__version__} · {name_engine(house, engine)} · {tilde(folder)}"


def _say_leaving(house: House, running: int) -> None:
    if running:
        grace_s = house.config.gateway.grace_s
        sys.stderr.write(f"Leaving: a running turn has {grace_s:.0f} s to end. Ctrl-C leaves now.\n")


def _mode(text: str | None) -> Interactive | OneShot:
    """A person at a keyboard talks. What was piped in is the message, or stands below the one that was given."""
    if sys.stdin.isatty():
        return Interactive() if text is None else OneShot(text)
    if text is None:
        return OneShot(sys.stdin.read())
    piped = sys.stdin.read() if _is_piped() else ""
    return OneShot(f"{text}\n\n{piped}" if piped.strip() else text)


def _is_piped() -> bool:
    """A pipe or a file. Anything else, a socket of whoever started us say, may never end."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


async def _bind(
    house: House,
    place: Address,
    folder: Path,
    engine: str | None,
    model: str | None,
    mode: ApprovalMode | None,
    *,
    new: bool,
) -> EngineId:
    """The conversation of this folder: what a flag says, else what was chosen there, else what its file wishes."""
    wishes = in_workspace(house.holder.loaded, folder)
    for problem in wishes.warnings:
        house.log.warning("config.warned", text=str(problem))
        sys.stderr.write(f"warning: {problem}\n")
    said = None if engine is None else _known(house, engine)
    wished = (
        None if wishes.engine in (AUTO, house.config.gateway.default_engine) else _known(house, wishes.engine)
    )
    names, now = set(engine_names(house).values()), house.clock.now()
    gateway = house.config.gateway
    kept_wishes = Wishes(
        wished,
        wishes.model,
        wishes.busy if wishes.busy != gateway.busy else None,
        wishes.show_cost if wishes.show_cost != gateway.show_cost else None,
        mode,
    )

    def unit(tx: Tx) -> EngineId | None:
        stored = tx.conversations.ensure(
            Conversation(conversation_id(place), place, now, private=True, workspace=str(folder))
        )
        kept = stored.engine if stored.engine in names and not new else None
        bound = msgspec.structs.replace(
            stored,
            workspace=str(folder),
            engine=said or kept,
            model=model or (None if new else stored.model),
            session_id=None if new else stored.session_id,
        )
        if bound != stored:
            tx.conversations.save(bound)
        keep_wishes(tx, bound.id, kept_wishes)
        return bound.engine or wished

    return await house.store.write(unit) or default_engine(house)


def _known(house: House, name: str) -> EngineId:
    names = engine_names(house)
    if name.lower() not in names:
        known = ", ".join(sorted(set(names.values())))
        raise ConfigError(f"There is no engine {name!r} here. There are: {known}.")
    return names[name.lower()]
