"""A gateway whose channel is one program, on standard input and output: `pilothouse rpc` and `pilothouse acp`.

Standard output belongs to the protocol. Everything else, also what a library prints, goes to standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import IO

import anyio
import anyio.to_thread

from pilothouse.bootstrap.app import App, LazyEngines, lazy_engines, open_app, reload_on_change
from pilothouse.bootstrap.assembly import make_ports
from pilothouse.bootstrap.machine import this_node
from pilothouse.bootstrap.people import terminal_user
from pilothouse.bootstrap.process import adopt_orphans, run, stop_on_signal
from pilothouse.core.channel import Channel
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Author
from pilothouse.runtime.gateway import Gateway


class Pipes:
    """Our ends of the client's pipes."""

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.stdin = stdin
        self.stdout = stdout


MakeChannel = Callable[[App, Pipes], Awaitable[Channel]]


def serve_client(name: str, make_channel: MakeChannel) -> int:
    """Serves the client until it leaves."""
    with _own_pipes() as pipes:
        return run(partial(_serve, name, make_channel, pipes))


@contextmanager
def _own_pipes() -> Iterator[Pipes]:
    """Take standard input and output for the protocol: what else is printed goes to standard error."""
    sys.stdout.flush()
    with os.fdopen(os.dup(0), "rb", buffering=0) as stdin, os.fdopen(os.dup(1), "wb", buffering=0) as stdout:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        yield Pipes(stdin, stdout)


async def _serve(name: str, make_channel: MakeChannel, pipes: Pipes) -> int:
    async with open_app(on_terminal=False) as app:
        channel = await make_channel(app, pipes)
        ports = make_ports(app, engines := lazy_engines(app), {channel.id: channel})
        ports.sweep = partial(_sweep_and_import, ports.sweep, app, engines)
        async with anyio.create_task_group() as tasks:
            gateway = Gateway(ports, this_node(name), primary=channel.id, standby=True)
            tasks.start_soon(partial(stop_on_signal, gateway.stop, stop_now=gateway.stop_now))
            tasks.start_soon(adopt_orphans)
            tasks.start_soon(reload_on_change, app)
            await gateway.run()
            tasks.cancel_scope.cancel()
    return 0


async def _sweep_and_import(sweep: Callable[[], Awaitable[None]], app: App, engines: LazyEngines) -> None:
    """Import the engines in a thread before they are opened: the client's first request is answered meanwhile."""
    await sweep()
    await anyio.to_thread.run_sync(_import_engines, app, list(engines))


def _import_engines(app: App, ids: list[EngineId]) -> None:
    for id in ids:
        if classes := app.plugins.engine(id).classes:
            classes()


def this_person() -> Author:
    user = terminal_user()
    return Author(user, user.partition(":")[2])


def id_maker(token: str) -> Callable[[], str]:
    """Make ids that no other process makes, now or after a restart."""
    numbers = count(1)
    return lambda: f"{token}-{next(numbers)}"
