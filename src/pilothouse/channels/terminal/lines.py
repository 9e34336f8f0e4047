"""Plain line input: a dumb terminal, a pipe, or the tty beside a one-shot answer."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from pilothouse.channels.terminal.receive import Interrupt, Leave, Line, Typed
from pilothouse.channels.terminal.streams import Streams

MOST_BYTES = 1_000_000


@asynccontextmanager
async def typed_lines(streams: Streams) -> AsyncIterator[MemoryObjectReceiveStream[Typed]]:
    """Yields a stream of lines, an `Interrupt` for each Ctrl-C, and a `Leave` at the end of input."""
    send, receive = anyio.create_memory_object_stream[Typed](16)
    with send, receive:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, streams.stdin.fileno(), send)
            group.start_soon(_watch, streams, send)
            yield receive
            group.cancel_scope.cancel()


async def _watch(streams: Streams, send: MemoryObjectSendStream[Typed]) -> None:
    with streams.interrupts() as pressed:
        async for _ in pressed:
            await send.send(Interrupt())


async def _read(fd: int, send: MemoryObjectSendStream[Typed]) -> None:
    """Reads the descriptor itself: a thread in `readline` could not be cancelled."""
    kept = b""
    while chunk := await _chunk(fd):
        *lines, kept = (kept + chunk).split(b"\n")
        for line in lines:
            await send.send(Line(_text(line)))
        kept = kept[-MOST_BYTES:]
    if kept:
        await send.send(Line(_text(kept)))
    await send.send(Leave())


async def _chunk(fd: int) -> bytes:
    await anyio.wait_readable(fd)
    try:
        return os.read(fd, 65_536)
    except OSError:  # a pty whose other end is closed raises an error instead of an end of file
        return b""


def forget_typed(streams: Streams) -> None:
    """Drops what was typed before a question was shown: it cannot be its answer."""
    import termios

    termios.tcflush(streams.stdin.fileno(), termios.TCIFLUSH)


async def read_line(streams: Streams) -> str | None:
    """Reads one line from the tty; None at its end.

    Reads only when called: the kernel stops a background job that reads, and later lines belong to the shell."""
    kept = b""
    while b"\n" not in kept:
        chunk = await _chunk(streams.stdin.fileno())
        if not chunk:
            return None
        kept = (kept + chunk)[-MOST_BYTES:]
    return _text(kept.split(b"\n")[0])


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r")
