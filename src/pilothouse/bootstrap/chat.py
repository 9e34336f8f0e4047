"""`pilothouse chat`: this terminal as a channel, in its own gateway or beside one that runs."""

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
    App,
    build_engines,
    channel_host,
    name_engine,
    open_app,
    reload_notice,
    reload_on_change,
)
from pilothouse.bootstrap.assembly import make_ports
from pilothouse.bootstrap.binding import ChatOptions, ask_for_mode, bind
from pilothouse.bootstrap.machine import this_node, tilde
from pilothouse.bootstrap.people import terminal_user
from pilothouse.bootstrap.process import adopt_orphans, run, say_leaving, stop_on_signal
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
    """Runs a conversation in a folder, or sends one message and prints its answer."""
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
    async with told, news, open_app(on_terminal=False) as app:
        place = Address(TERMINAL, str(folder))
        chosen = await bind(app, place, folder, ChatOptions(engine, model, said, new), private=True)
        if said is None and text is None:
            await ask_for_mode(app, folder, chosen)
        terminal = TerminalChannel(
            app.config.channels[TERMINAL].settings,
            channel_host(app, TERMINAL),
            mode=(mode := _mode(text, news)),
            streams=system_streams(),
            place=place.place,
            user=terminal_user().partition(":")[2],
            json=as_json,
            verbose=verbose,
            header="" if as_json else _header(app, chosen, folder),
        )
        ports = make_ports(app, build_engines(app), {TERMINAL: terminal})
        async with anyio.create_task_group() as tasks:

            def leave(running: int) -> None:
                tasks.start_soon(_leave, app, gateway, running)

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
                tasks.start_soon(reload_on_change, app, partial(_tell, told))
            await gateway.run()
            tasks.cancel_scope.cancel()
        return terminal.exit_code


async def _leave(app: App, gateway: Gateway, running: int) -> None:
    """Makes Ctrl-C end the wait for running turns. The line editor is closed by now, so Ctrl-C arrives as a signal."""
    say = partial(say_leaving, app.config.gateway.grace_s, running)
    await stop_on_signal(gateway.stop_now, (signal.SIGINT,), listening=say)


def _header(app: App, engine: EngineId, folder: Path) -> str:
    return f"pilothouse {__version__} · {name_engine(app, engine)} · {tilde(folder)}"


def _tell(told: MemoryObjectSendStream[News], result: Reloaded) -> None:
    """Shows the result of a reload in the chat; if its queue is full, the log still has it."""
    if text := reload_notice(result):
        with suppress(anyio.WouldBlock):
            told.send_nowait(News(text, result.worrying))


def _mode(text: str | None, news: AsyncIterable[News]) -> Interactive | OneShot:
    """Chooses interactive mode for a terminal without TEXT. Piped input is the message, or is appended to TEXT."""
    if sys.stdin.isatty():
        return Interactive(news) if text is None else OneShot(text)
    if text is None:
        return OneShot(sys.stdin.read())
    piped = sys.stdin.read() if _is_piped() else ""
    return OneShot(f"{text}\n\n{piped}" if piped.strip() else text)


def _is_piped() -> bool:
    """Returns true for a pipe or a file. Other inputs, such as an inherited socket, may never end."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
