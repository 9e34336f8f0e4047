"""What one turn was sent and has not been read yet: bounded in portions and in bytes.

Rules: a full mailbox makes its writer wait, and so, in the end, the program; once discarded or closed, nobody waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio

from pilothouse.core.engine import Step

MAX_PORTIONS = 256
MAX_BYTES = 4 * 1024 * 1024


class Mailbox:
    def __init__(self, max_portions: int = MAX_PORTIONS, max_bytes: int = MAX_BYTES) -> None:
        self._max_portions = max_portions
        self._max_bytes = max_bytes
        self._portions: deque[tuple[Sequence[Step], int]] = deque()
        self._bytes = 0
        self._closed = False
        self._discards = False
        self._changed = anyio.Event()

    async def put(self, steps: Sequence[Step], size: int) -> None:
        """Waits for room. What comes after the end, or to a mailbox that nobody reads, is gone."""
        while self._full and not self._shut:
            await self._changed.wait()
        self.put_last(steps, size)

    def put_last(self, steps: Sequence[Step], size: int = 0) -> None:
        """Never waits: the last words of a process that is gone, or a word of our own."""
        if not self._shut:
            self._portions.append((steps, size))
            self._bytes += size
            self._wake()

    async def get(self) -> Sequence[Step] | None:
        """The next portion; None when all are read and nothing more will come."""
        while not self._portions:
            if self._shut:
                return None
            await self._changed.wait()
        steps, size = self._portions.popleft()
        self._bytes -= size
        self._wake()
        return steps

    def close(self) -> None:
        self._closed = True
        self._wake()

    def discard(self) -> None:
        """Nobody will read any more."""
        self._discards = True
        self._portions.clear()
        self._bytes = 0
        self._wake()

    @property
    def _full(self) -> bool:
        return len(self._portions) >= self._max_portions or self._bytes >= self._max_bytes

    @property
    def _shut(self) -> bool:
        return self._discards or self._closed

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
