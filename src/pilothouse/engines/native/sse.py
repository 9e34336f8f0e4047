"""Server-sent events: bytes in any portions -> the data of whole events. Pure.

The same bytes give the same events however they were cut. An event has a bound; a longer one is an error, because a
model's answer with a hole in it must not be used.
"""

from __future__ import annotations

MAX_EVENT_BYTES = 32 * 1024 * 1024


class EventTooLong(Exception):
    """One event of the stream is larger than `MAX_EVENT_BYTES`."""


class SseReader:
    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_bytes
        self._open = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, portion: bytes) -> list[bytes]:
        """Return the data of the events that this portion completed. Raises `EventTooLong`."""
        self._open += portion
        *lines, rest = self._open.split(b"\n")
        self._open = bytearray(rest)
        found = [data for line in lines if (data := self._take(bytes(line).removesuffix(b"\r"))) is not None]
        if self._size + len(self._open) > self._max:
            raise EventTooLong
        return found

    def _take(self, line: bytes) -> bytes | None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
            self._size += len(line)
        if line or not self._data:
            return None
        whole = b"\n".join(self._data)
        self._data, self._size = list[bytes](), 0
        return whole
