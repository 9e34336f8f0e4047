"""Bytes in any portions -> whole lines.

Rules: the same bytes give the same lines however they were cut into portions. A line has a bound; a longer one is cut,
reported once and skipped to its end. The last line counts although no newline follows it. At most one portion's lines
wait, besides the line that is still being read.

A newline byte is never part of a longer UTF-8 sequence, so each line can be decoded by itself. Lines stay bytes, because
the JSON decoder takes bytes.
"""

from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

from pilothouse.processes.pipes import PipeReader

MAX_LINE_BYTES = 64 * 1024 * 1024


class Line(NamedTuple):
    """One line without its newline (LF or CRLF). `cut` counts the bytes dropped from its end; 0 is whole."""

    data: bytes
    cut: int = 0

    @property
    def text(self) -> str:
        """The line for people to read: bytes that are not UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", "replace")


class LineSplitter:
    """Splits a stream into lines. `feed` for every portion, `end` once after the last."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes}; a line needs at least 1.")
        self._max = max_bytes
        # A bytearray, not a list of portions: a child that writes two bytes at a time would make each of
        # them an object, and a 64 MB line would cost 1.4 GB.
        self._open = bytearray()
        self._dropped = 0
        self._last = b""

    def feed(self, portion: bytes) -> list[Line]:
        """Take the next portion; return the lines that it completed."""
        first, newline, rest = portion.partition(b"\n")
        self._hold(first)
        if not newline:
            return []
        lines = [self._close(newline_follows=True)]
        *whole, unfinished = rest.split(b"\n")
        if len(rest) <= self._max:
            lines += [Line(data.removesuffix(b"\r")) for data in whole]
        else:
            lines += [self._whole(data) for data in whole]
        self._hold(unfinished)
        return lines

    def end(self) -> list[Line]:
        """Return the rest after the last newline, if there is any."""
        return [self._close(newline_follows=False)] if self._open else []

    def _whole(self, data: bytes) -> Line:
        self._hold(data)
        return self._close(newline_follows=True)

    def _hold(self, data: bytes) -> None:
        # One byte more than the bound: a carriage return there is half a newline, not a byte too many.
        room = self._max + 1 - len(self._open)
        self._open += data if len(data) <= room else memoryview(data)[:room]
        self._dropped += max(0, len(data) - room)
        self._last = data[-1:] or self._last

    def _close(self, *, newline_follows: bool) -> Line:
        length = len(self._open) + self._dropped
        if newline_follows and self._last == b"\r":
            length -= 1
        kept = min(length, self._max)
        # Copied through a view: slicing the bytearray itself would hold the line three times.
        with memoryview(self._open) as view:
            line = Line(bytes(view[:kept]), length - kept)
        self._open, self._dropped, self._last = bytearray(), 0, b""
        return line


class LineReader(AsyncIterator[Line]):
    """Iterates over the lines of a pipe. Leaving the loop and coming back loses nothing; one loop at a time."""

    # A class, not an async generator: a generator that is left early would take its waiting lines with it.

    def __init__(self, pipe: PipeReader, max_line_bytes: int) -> None:
        self._pipe = pipe
        self._splitter = LineSplitter(max_line_bytes)
        self._ready: deque[Line] = deque()
        self._ended = False

    @property
    def waiting(self) -> int:
        """Number of lines that the loop gives without waiting."""
        return len(self._ready)

    async def __anext__(self) -> Line:
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._fill()
        return self._ready.popleft()

    async def _fill(self) -> None:
        portion = await self._pipe.receive()
        if portion:
            self._ready.extend(self._splitter.feed(portion))
        else:
            self._ended = True
            self._ready.extend(self._splitter.end())
