"""A server under a keeper: it may work on for a while after its gateway died, and the next gateway adopts it.

The folder holds `server.json`, which names the keeper, and `gateway`, the pipe that a gateway holds open while it lives (see
`keeper.py`). Rules: one server per folder. Leaving it ends it, with all that it started. One that is not adopted is ended.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.engine import ProcessStart
from pilothouse.processes import keeper
from pilothouse.processes.launcher import Launcher
from pilothouse.processes.life import Ending, StopDeadlines, Stopped, clear
from pilothouse.processes.process import Process, ProcessLimits
from pilothouse.processes.procfs import Marker, ProcessId, procfs_works, read_process
from pilothouse.processes.tree import KEPT_MARKER, ProcessTree

_RECORD = "server.json"
_CHANNEL = "gateway"


class Kept(Struct, frozen=True):
    """A keeper: its process, and the marker of everything below it."""

    pid: int
    started: int
    mark: str

    @property
    def alive(self) -> bool:
        info = read_process(self.pid)
        return info is not None and info.alive and info.id == ProcessId(self.pid, self.started)

    async def end(self, deadlines: StopDeadlines) -> tuple[ProcessId, ...]:
        """End it with all that is below it; return what survived."""
        tree = ProcessTree(marker=Marker(KEPT_MARKER, self.mark))
        return await clear(tree, terminate_s=deadlines.terminate_s, kill_s=deadlines.kill_s)


class KeptProcess:
    """A server and its keeper. `process` is None if an earlier gateway started them."""

    def __init__(self, kept: Kept, channel: int, process: Process | None = None) -> None:
        self.pid = kept.pid
        self._kept = kept
        self._channel = channel
        self._process = process
        self._busy = process is None

    @property
    def alive(self) -> bool:
        return self._kept.alive if self._process is None else self._process.exit_code is None

    @property
    def exit_code(self) -> int | None:
        return self._process.exit_code if self._process else None

    def stderr_tail(self) -> str:
        return self._process.stderr_tail() if self._process else ""

    def mark_busy(self, *, busy: bool) -> None:
        """Tell the keeper whether the server has work that may outlive this gateway."""
        if busy != self._busy:
            self._busy = busy
            with suppress(OSError):  # the keeper has ended
                os.write(self._channel, keeper.BUSY if busy else keeper.IDLE)

    async def stop(self, deadlines: StopDeadlines | None = None) -> Stopped:
        """End the server with its keeper, which reads no input, and all that they started."""
        limits = replace(deadlines or StopDeadlines(), input_s=0.0)
        if self._process is not None:
            return await self._process.stop(limits)
        left = await self._kept.end(limits)
        return Stopped(Ending.SURVIVED if left else Ending.TERMINATED, None, left)


@asynccontextmanager
async def open_kept(
    launcher: Launcher, start: ProcessStart, folder: Path, lease_s: float, limits: ProcessLimits
) -> AsyncGenerator[KeptProcess, None]:
    """Start a server that may outlive a killed gateway for `lease_s`. Raises `SpawnFailed`."""
    mark, channel = secrets.token_hex(16), _make_channel(folder)
    lease_s = lease_s if procfs_works() else 0.0  # without /proc it could not be adopted
    words = [sys.executable, "-I", keeper.__file__, str(folder / _CHANNEL), f"{lease_s:g}"]
    kept_start = msgspec.structs.replace(start, environment={**start.environment, KEPT_MARKER: mark})
    try:
        async with launcher.open(kept_start, limits, before=words) as process:
            info = read_process(process.pid)
            kept = Kept(process.pid, info.id.started if info else 0, mark)
            _write_record(folder, kept)
            async with _ending(KeptProcess(kept, channel, process), folder) as server:
                yield server
    finally:
        os.close(channel)


@asynccontextmanager
async def adopt_kept(folder: Path, kept: Kept) -> AsyncGenerator[KeptProcess, None]:
    """Take over the server of a gateway that was killed. It is `alive` only if its keeper still waits."""
    try:
        channel = os.open(folder / _CHANNEL, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # the keeper has ended
        channel = os.open(os.devnull, os.O_WRONLY)
    try:
        async with _ending(KeptProcess(kept, channel), folder) as server:
            yield server
    finally:
        os.close(channel)


def find_kept(folder: Path) -> Kept | None:
    """Return the server that an earlier gateway left here, if any."""
    try:
        return msgspec.json.decode((folder / _RECORD).read_bytes(), type=Kept)
    except (OSError, msgspec.MsgspecError):
        return None


@asynccontextmanager
async def _ending(server: KeptProcess, folder: Path) -> AsyncGenerator[KeptProcess, None]:
    try:
        yield server
    finally:
        with anyio.CancelScope(shield=True):
            await server.stop()
        (folder / _RECORD).unlink(missing_ok=True)


def _make_channel(folder: Path) -> int:
    """Make the pipe anew, and open it. Opened for both, it needs no reader yet."""
    path = folder / _CHANNEL
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)


def _write_record(folder: Path, kept: Kept) -> None:
    path = folder / f"{_RECORD}.new"
    path.unlink(missing_ok=True)
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(msgspec.json.encode(kept))
    path.rename(folder / _RECORD)
