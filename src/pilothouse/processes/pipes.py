"""The gateway's ends of a child's pipes: read when asked, write with back-pressure.

Rules: nothing is read ahead, so a flood waits in the kernel and not in our memory. A cancelled read loses no byte. A
write that was cut short closes the pipe for writing, because the next line would be glued to half of this one. Of
stderr everything is read, and only the last bytes are kept.
"""

import os
import select
from contextlib import suppress
from typing import IO

import anyio
from anyio.lowlevel import checkpoint

_PORTION_BYTES = 256 * 1024
ATOMIC = select.PIPE_BUF
"""Number of bytes that a pipe takes whole or not at all."""

TAIL_BYTES = 64 * 1024


class PipeReader:
    """Reads portions until the end. One reader at a time."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._finished = False
        self._waiting: anyio.CancelScope | None = None
        self._rested = False
        os.set_blocking(file.fileno(), False)

    async def receive(self) -> bytes:
        """Return the next portion; empty at the end."""
        if not self._rested:
            await checkpoint()  # a pipe that is never empty must not block the event loop
        self._rested = False
        while (portion := self.take()) is None:
            if self._finished:
                return b""
            await self._wait()
        return portion

    def take(self) -> bytes | None:
        """Return what is in the pipe now: None if nothing, empty at the end."""
        if self._file.closed:
            return b""
        try:
            return os.read(self._file.fileno(), _PORTION_BYTES)
        except BlockingIOError:
            return None

    async def discard(self) -> None:
        """Read to the end and keep nothing, so that a child can finish writing and exit."""
        with suppress(anyio.BusyResourceError):  # another task reads: then nothing is stuck
            while await self.receive():
                pass

    def finish(self) -> None:
        """Treat what is in the pipe as the rest, though a foreign process may hold it open: our writers have ended."""
        self._finished = True
        if self._waiting is not None:
            self._waiting.cancel()

    def close(self) -> None:
        if not self._file.closed:
            anyio.notify_closing(self._file.fileno())
            self._file.close()

    async def _wait(self) -> None:
        with anyio.CancelScope() as self._waiting:
            try:
                await anyio.wait_readable(self._file.fileno())
            except anyio.ClosedResourceError:
                self._finished = True
        self._waiting = None
        self._rested = True


class PipeWriter:
    """Writes whole messages, one after the other. Raises `BrokenPipeError` with a reason when it cannot."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._torn = False
        self._turn = anyio.Lock(fast_acquire=True)
        os.set_blocking(file.fileno(), False)

    def offer(self, data: bytes) -> bool:
        """Write all of it at once, as is nearly always possible, or nothing; return whether it was written."""
        if self._turn.locked() or len(data) > ATOMIC:
            return False
        try:
            return self._take(memoryview(data)) > 0
        except BlockingIOError:
            return False

    async def send(self, data: bytes) -> None:
        async with self._turn:
            rest = memoryview(data)
            try:
                while rest:
                    rest = rest[await self.write_some(rest) :]
            finally:
                self._torn = self._torn or 0 < len(rest) < len(data)

    def close(self) -> None:
        if not self._file.closed:
            anyio.notify_closing(self._file.fileno())
            self._file.close()

    async def write_some(self, data: memoryview) -> int:
        """Write as much as there is room for; wait and return 0 if there is none. A cancelled wait wrote nothing."""
        try:
            return self._take(data)
        except BlockingIOError:
            await self._wait()
            return 0

    def _take(self, data: memoryview) -> int:
        if self._torn:
            raise BrokenPipeError("an earlier message was cut short")
        if self._file.closed:
            raise BrokenPipeError("its input was closed")
        try:
            return os.write(self._file.fileno(), data)
        except BrokenPipeError:
            raise BrokenPipeError("it no longer reads") from None

    async def _wait(self) -> None:
        try:
            await anyio.wait_writable(self._file.fileno())
        except anyio.ClosedResourceError:
            raise BrokenPipeError("its input was closed") from None


class Tail:
    """Keeps the last `limit` bytes of what it is given."""

    def __init__(self, limit: int = TAIL_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._cut = False

    def feed(self, portion: bytes) -> None:
        self._kept += portion
        # Trimmed at twice the bound, so that a flood of small portions does not move the buffer each time.
        if len(self._kept) > 2 * self._limit:
            self._trim()

    def text(self) -> str:
        """Return what is kept, without half of a character where the start was cut off."""
        if len(self._kept) > self._limit:
            self._trim()
        kept = bytes(self._kept)
        return (_from_whole_character(kept) if self._cut else kept).decode("utf-8", "replace")

    def _trim(self) -> None:
        del self._kept[: len(self._kept) - self._limit]
        self._cut = True


def _from_whole_character(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
