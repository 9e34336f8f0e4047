"""The app-server behind its Unix socket: a WebSocket whose messages are the lines of a link.

It is kept (see `processes/kept.py`): a turn may go on while the gateway restarts, for `LEASE_S` at most. The next gateway
adopts the server at its start. A jailed server serves one workspace, and ends with its gateway. Other clients may use the same socket: a user's own `codex --remote`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from stat import S_ISSOCK
from typing import TYPE_CHECKING

import anyio

from pilothouse.engines.link import LinkPlan
from pilothouse.processes import InputClosed, InputStalled, Line, StopDeadlines, Stopped
from pilothouse.processes.kept import Kept, KeptProcess, adopt_kept, open_kept
from pilothouse.processes.procfs import open_socket

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

LEASE_S = 600.0
LOOK_AGAIN_S = 0.02
MAX_MESSAGE_BYTES = 256 * 1024 * 1024
"""A longer message ends the connection. One above the limit for lines is cut, as on a pipe."""
WRITE_S = 30.0
MAX_PATH = 100
_SOCKET = "app-server.sock"


def server_folder(state_dir: str, jailed: str = "") -> Path:
    """Return the folder of the server's socket and record; `jailed` is the workspace of a server that serves it alone."""
    common = Path(state_dir, "codex").absolute()
    if not jailed:
        return common
    return common / "jails" / hashlib.sha256(os.fsencode(os.path.realpath(jailed))).hexdigest()[:16]


def socket_path(folder: Path) -> Path:
    return folder / _SOCKET


def jailed_sockets(folder: Path) -> Path:
    """Return the folder outside of a jail in which Codex (0.166) makes the socket behind the link that it was asked for."""
    return folder / "sockets"


class Server:
    """A server with our connection to it; None if there was none to be had."""

    def __init__(self, kept: KeptProcess, connection: ClientConnection | None, max_line_bytes: int) -> None:
        self.pid = kept.pid
        self.mark_busy = kept.mark_busy
        self.waiting = 1
        """Not known, and no reason to rest: the connection reads ahead by itself."""
        self._kept = kept
        self._connection = connection
        self._max_line_bytes = max_line_bytes

    @property
    def exit_code(self) -> int | None:
        return self._kept.exit_code

    def lines(self) -> Server:
        return self

    def __aiter__(self) -> AsyncIterator[Line]:
        return self

    async def __anext__(self) -> Line:
        from websockets.exceptions import ConnectionClosed

        if self._connection is None:
            raise StopAsyncIteration
        try:
            data = await self._connection.recv(decode=False)
        except ConnectionClosed:
            raise StopAsyncIteration from None
        cut = max(0, len(data) - self._max_line_bytes)
        return Line(data[: self._max_line_bytes] if cut else data, cut)

    def stderr_tail(self) -> str:
        return self._kept.stderr_tail()

    async def write_line(self, data: bytes, *, deadline_s: float | None = None) -> None:
        """Send a message. Raises `InputClosed`, or `InputStalled` after the deadline."""
        from websockets.exceptions import ConnectionClosed

        limit_s = WRITE_S if deadline_s is None else deadline_s
        named = {"argv0": "codex app-server", "pid": self.pid}
        if self._connection is None:
            raise InputClosed("there is no connection", **named, exit_code=self.exit_code)
        try:
            with anyio.fail_after(limit_s):
                await self._connection.send(data, text=True)
        except ConnectionClosed as error:
            raise InputClosed(str(error), **named, exit_code=self.exit_code) from error
        except TimeoutError:
            raise InputStalled(**named, deadline_s=limit_s) from None

    async def stop(self, deadlines: StopDeadlines | None = None) -> Stopped:
        return await self._kept.stop(deadlines)


@asynccontextmanager
async def open_server(plan: LinkPlan, folder: Path, found: Kept | None) -> AsyncGenerator[Server, None]:
    """Adopt the found server, or start one; on leaving, end it. Raises `SpawnFailed`."""
    jailed = bool(plan.start.workspace)
    path = socket_path(folder)
    if found is None:
        path.unlink(missing_ok=True)
    if jailed:
        shutil.rmtree(jailed_sockets(folder), ignore_errors=True)
        jailed_sockets(folder).mkdir(mode=0o700, parents=True)
    opened = (
        adopt_kept(folder, found)
        if found is not None
        else open_kept(plan.launcher, plan.start, folder, 0.0 if jailed else LEASE_S, plan.limits)
    )
    async with opened as kept:
        connection = None
        with anyio.move_on_after(plan.open_s + plan.grace_s):
            connection = await _connect(kept, jailed_sockets(folder) if jailed else path)
        try:
            yield Server(kept, connection, plan.limits.max_line_bytes)
        finally:
            if connection is not None:
                connection.transport.abort()
            path.unlink(missing_ok=True)


async def _connect(kept: KeptProcess, path: Path) -> ClientConnection | None:
    """Connect as soon as the server listens; return None if it has ended."""
    from websockets.asyncio.client import unix_connect
    from websockets.exceptions import WebSocketException

    while kept.alive:
        with suppress(OSError, WebSocketException), name_socket(path) as short:
            return await unix_connect(
                short,
                "ws://localhost/",
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                open_timeout=None,
                ping_interval=None,  # a server that hangs is the link's to judge
            )
        await anyio.sleep(LOOK_AGAIN_S)
    return None


@contextmanager
def name_socket(path: Path) -> Iterator[str]:
    """Name the socket by a path that is short enough for the system: where the link leads that Codex makes there, or by its
    open folder. A jail's folder of sockets has one, and links in it lead nowhere. Raises `OSError`."""
    if path.is_dir():
        sockets = [name for name in sorted(os.listdir(path)) if S_ISSOCK((path / name).lstat().st_mode)]
        with open_socket(os.path.join(path, *sockets[:1])) as short:
            yield short
        return
    real = os.path.realpath(path)
    if len(os.fsencode(real)) <= MAX_PATH or sys.platform != "linux":
        yield real
        return
    folder = os.open(os.path.dirname(real), os.O_PATH)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(real)}"
    finally:
        os.close(folder)
