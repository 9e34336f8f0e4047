"""`pilothouse chat`: this terminal as a channel, in a gateway of its own or beside one that runs."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import AsyncIterable
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
from anyio.streams.memory import MemoryObjectSendStream

from pilothouse import __version__
from pilothouse.bootstrap.app import (
    TERMINAL,
    House,
    build_engines,
    channel_host,
    name_engine,
    open_house,
    reload_on_change,
    words_for,
)
from pilothouse.bootstrap.assembly import make_ports
from pilothouse.bootstrap.binding import Chosen, bind, pick_where_unsaid
from pilothouse.bootstrap.event_loop import run, say_leaving
from pilothouse.bootstrap.machine import adopt_orphans, stop_on_signal, this_node, tilde
from pilothouse.bootstrap.people import terminal_user
from pilothouse.channels.terminal.config import Interactive, News, OneShot
from pilothouse.config import Reloaded
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Address
from pilothouse.core.policy import ApprovalMode, parse_mode
from pilothouse.runtime.gateway import Gateway

MOST_NEWS = 16


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

    told, news = anyio.create_memory_object_stream[News](MOST_NEWS)
    async with told, news, open_house(on_terminal=False) as house:
        place = Address(TERMINAL, str(folder))
        chosen = await bind(house, place, folder, Chosen(engine, model, said, new), private=True)
        if said is None and text is None:
            await pick_where_unsaid(house, folder, chosen)
        terminal = TerminalChannel(
            house.config.channels[TERMINAL].settings,
            channel_host(house, TERMINAL),
            mode=(mode := _mode(text, news)),
            streams=system_streams(),
            place=place.place,
            user=terminal_user().partition(":")[2],
            json=as_json,
            verbose=verbose,
            header="" if as_json else _header(house, chosen, folder),
        )
        ports = make_ports(house, build_engines(house), {TERMINAL: terminal})
        async with anyio.create_task_group() as tasks:

            def leave(running: int) -> None:
                tasks.start_soon(_leave, house, gateway, running)

            gateway = Gateway(
                ports,
                this_node("pilothouse chat"),
                primary=TERMINAL,
                standby=True,
                on_stopping=leave,
            )
            tasks.start_soon(stop_on_signal, gateway.stop, (signal.SIGTERM, signal.SIGHUP))
            tasks.start_soon(adopt_orphans)
            if isinstance(mode, Interactive):
                tasks.start_soon(reload_on_change, house, partial(_tell, told))
            await gateway.run()
            tasks.cancel_scope.cancel()
        return terminal.exit_code


async def _leave(house: House, gateway: Gateway, running: int) -> None:
    """Nobody reads the keyboard any more, so Ctrl-C is a signal: the first one waits for no turn, and still writes down
    what becomes of those that run."""
    say = partial(say_leaving, house.config.gateway.grace_s, running)
    await stop_on_signal(gateway.hurry, (signal.SIGINT,), listening=say)


def _header(house: House, engine: EngineId, folder: Path) -> str:
    return f"pilothouse {__version__} · {name_engine(house, engine)} · {tilde(folder)}"


def _tell(told: MemoryObjectSendStream[News], result: Reloaded) -> None:
    """Into the chat. The log has what a chat has no room for."""
    if text := words_for(result):
        with suppress(anyio.WouldBlock):
            told.send_nowait(News(text, result.worrying))


def _mode(text: str | None, news: AsyncIterable[News]) -> Interactive | OneShot:
    """A person at a keyboard talks. What was piped in is the message, or stands below the one that was given."""
    if sys.stdin.isatty():
        return Interactive(news) if text is None else OneShot(text)
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
