"""The last bytes of a stream, for the message that says why a process ended.

Rule: whatever a child writes to stderr is read, and never more than the bound is kept.
"""

TAIL_BYTES = 64 * 1024


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
        """What is kept, as text. Where the start was cut off, no half character is shown."""
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
