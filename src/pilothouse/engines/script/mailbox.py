"""What one session was sent and has not read yet: bounded in lines and in bytes.

Rules: a full mailbox makes its writer wait; lines that are none of the protocol's are counted, not collected; once
discarded or closed, nobody waits any more.
"""

from __future__ import annotations

from collections import deque

import anyio

from pilothouse.core.event import joined
from pilothouse.core.outcome import Failure
from pilothouse.engines.script.translate import Exit
from pilothouse.engines.script.wire import Event, Media, Noise

MAX_LINES = 256
MAX_BYTES = 4 * 1024 * 1024
MAX_JOINED_BYTES = 16 * 1024
"""Text that grows by a word at a time is copied whole for each: beyond this it is the next item."""

Item = Event | Media | Noise


class Mailbox:
    def __init__(self, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> None:
        self._max_lines = max_lines
        self._max_bytes = max_bytes
        self._items: deque[tuple[Item, int]] = deque()
        self._bytes = 0
        self._last: Exit | Failure | None = None
        self._discards = False
        self._changed: anyio.Event | None = None
        """There is one only while somebody waits: most lines find nobody waiting."""

    @property
    def full(self) -> bool:
        return len(self._items) >= self._max_lines or self._bytes >= self._max_bytes

    async def wait_for_room(self) -> None:
        """A mailbox that takes nothing any more has room for everything."""
        while self.full and not self._shut:
            self.ring()
            await self._change()

    def offer(self, item: Event | Media, size: int, *, quietly: bool = False) -> bool:
        """Never waits: False if there is no room. Quietly, the reader sleeps on until the next item, or a `ring`, and
        what follows is one item with this one if both are deltas of one block."""
        if self._shut:
            return True
        if self.full:
            return False
        if not (quietly and self._join(item, size)):
            self._items.append((item, size))
        self._bytes += size
        if not quietly:
            self.ring()
        return True

    def _join(self, item: Event | Media, size: int) -> bool:
        if not self._items or not isinstance(item, Event):
            return False
        last, before = self._items[-1]
        if not isinstance(last, Event) or before + size > MAX_JOINED_BYTES:
            return False
        both = joined(last.event, item.event)
        if both is None:
            return False
        self._items[-1] = (Event(item.session, item.turn, both), before + size)
        return True

    def put_noise(self, noise: Noise) -> None:
        """Never waits: noise next to noise is one item with a number."""
        if self._shut:
            return
        if self._items and isinstance(last := self._items[-1][0], Noise):
            self._items[-1] = (Noise(last.raw, last.lines + noise.lines), 0)
        else:
            self._items.append((noise, 0))
        self.ring()

    async def get(self) -> Item | Exit | Failure:
        """The next item; when all are read, how it ended, again and again."""
        while not self._items:
            if self._last is not None:
                return self._last
            await self._change()
        item, size = self._items.popleft()
        self._bytes -= size
        self.ring()
        return item

    def close(self, last: Exit | Failure) -> None:
        """Nothing more will come. The first reason stays."""
        self._last = self._last or last
        self.ring()

    def discard(self) -> None:
        """Nobody will read any more."""
        self._discards = True
        self._items.clear()
        self._bytes = 0
        self.ring()

    @property
    def _shut(self) -> bool:
        return self._discards or self._last is not None

    async def _change(self) -> None:
        self._changed = self._changed or anyio.Event()
        await self._changed.wait()

    def ring(self) -> None:
        """Whoever waits looks again."""
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()
