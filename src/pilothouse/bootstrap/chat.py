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
from pilothouse.bootstrap.binding import Bound, ChatOptions, ask_for_mode, bind
from pilothouse.bootstrap.machine import this_node, tilde
from pilothouse.bootstrap.people import make_people, terminal_user
from pilothouse.bootstrap.policy import HOME_WARNING, is_home
from pilothouse.bootstrap.process import adopt_orphans, run, say_leaving, stop_on_signal
from pilothouse.bootstrap.terminal_text import program, say
from pilothouse.channels.terminal.config import ChatFacts, Interactive, News, OneShot
from pilothouse.config import Reloaded
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.message import Address, conversation_id
from pilothouse.core.policy import ApprovalMode, parse_mode
from pilothouse.core.store import Tx
from pilothouse.core.text import ago
from pilothouse.runtime.channel_status import serves_channels
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
    first: str = "",
) -> int:
    """Runs a conversation in a folder, or sends one message and prints its answer."""
    folder = Path(workspace or os.getcwd()).expanduser().resolve()
    if not folder.is_dir():
        raise ConfigError(f"The workspace {folder} does not exist. Create the folder, or name another.")
    said = None if approval_mode is None else parse_mode(approval_mode)
    if is_home(str(folder)):
        sys.stderr.write(HOME_WARNING.format(folder=folder) + ". Start in a folder of its own.\n")
    return run(partial(_chat, folder, text, as_json, engine, model, said, new, verbose, first))


async def _chat(
    folder: Path,
    text: str | None,
    as_json: bool,
    engine: str | None,
    model: str | None,
    said: ApprovalMode | None,
    new: bool,
    verbose: bool,
    first: str,
) -> int:
    from pilothouse.channels.terminal.channel import TerminalChannel
    from pilothouse.channels.terminal.streams import system_streams

    told, news = anyio.create_memory_object_stream[News](MOST_NEWS)
    async with told, news, open_app(on_terminal=False) as app:
        place = Address(TERMINAL, str(folder))
        chosen = await bind(app, place, folder, ChatOptions(engine, model, said, new), private=True)
        if said is None and text is None:
            await ask_for_mode(app, folder, chosen.engine)
        terminal = TerminalChannel(
            app.config.channels[TERMINAL].settings,
            channel_host(app, TERMINAL),
            mode=(mode := _mode(text, news, first)),
            streams=system_streams(),
            place=place.place,
            user=terminal_user().partition(":")[2],
            json=as_json,
            verbose=verbose,
            facts=ChatFacts("" if as_json else _header(app, chosen, folder), program(os.environ)),
        )
        ports = make_ports(app, build_engines(app), {TERMINAL: terminal})
        async with anyio.create_task_group() as tasks:

            def leave(running: int) -> None:
                tasks.start_soon(_leave, app, gateway, running)

            gateway = Gateway(
                ports,
                this_node(f"pilothouse chat in {tilde(folder)}"),
                primary=TERMINAL,
                standby=True,
                terminal=conversation_id(place),
                is_attended=sys.stdin.isatty(),
                on_stopping=leave,
            )
            tasks.start_soon(stop_on_signal, gateway.stop, (signal.SIGTERM, signal.SIGHUP))
            tasks.start_soon(adopt_orphans)
            if isinstance(mode, Interactive):
                tasks.start_soon(reload_on_change, app, partial(_tell, told))
            await gateway.run()
            tasks.cancel_scope.cancel()
        if isinstance(mode, Interactive):
            await _say_open_asks(app, conversation_id(place))
        return terminal.exit_code


async def _say_open_asks(app: App, here: ConversationId) -> None:
    from pilothouse.bootstrap.open_asks import describe_open_asks

    def unit(tx: Tx) -> str:
        now = app.clock.now()
        enabled = (ChannelId(id) for id, row in app.config.channels.items() if row.enabled)
        served = frozenset(enabled if serves_channels(tx, now) else ())
        return describe_open_asks(tx, make_people(app.config), here, served, now)

    text = await app.store.read(unit)
    with suppress(OSError):  # the window may be closed
        if text:
            say(text)


async def _leave(app: App, gateway: Gateway, running: int) -> None:
    """Makes Ctrl-C end the wait for running turns. The line editor is closed by now, so Ctrl-C arrives as a signal.

    A turn that waits for an answer is not waited for: its ask stays open, and the answer continues the work.
    """
    if running and not await app.store.read(lambda tx: tx.turns.of(statuses=("running",), limit=1)):
        gateway.stop_now()
        return
    say = partial(say_leaving, app.config.gateway.grace_s, running)
    await stop_on_signal(gateway.stop_now, (signal.SIGINT,), listening=say)


def _header(app: App, bound: Bound, folder: Path) -> str:
    """Names the engine of this conversation, and the session that it continues."""
    header = f"pilothouse {__version__} · {name_engine(app, bound.engine)} · {tilde(folder)}"
    if isolation := app.jails.header(str(folder), bound.engine):
        header = f"{header} · {isolation}"
    if (session := bound.session) is None:
        return header
    last = f" after “{bound.last_said}”" if bound.last_said else ""
    turns = f"{session.turns} turn{'' if session.turns == 1 else 's'}"
    used = ago(app.clock.now() - session.used_at)
    return f"{header}\ncontinuing{last} · {turns}, {used} · /new starts afresh"


def _tell(told: MemoryObjectSendStream[News], result: Reloaded) -> None:
    """Shows the result of a reload in the chat; if its queue is full, the log still has it."""
    if text := reload_notice(result):
        with suppress(anyio.WouldBlock):
            told.send_nowait(News(text, result.worrying))


def _mode(text: str | None, news: AsyncIterable[News], first: str) -> Interactive | OneShot:
    """Chooses interactive mode for a terminal without TEXT. Piped input is the message, or is appended to TEXT."""
    if sys.stdin.isatty():
        return Interactive(news, first) if text is None else OneShot(text)
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
