"""Mailbox: a bounded queue between a program's output and the reader of one turn.

A full mailbox makes its writer wait, and so, in the end, the program. Once it is closed or discarded, nothing waits:
further items are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

MAX_ITEMS = 256
MAX_BYTES = 4 * 1024 * 1024
MAX_JOINED_BYTES = 16 * 1024
"""Joining copies the whole text for each word that is added, so a longer text becomes the next item."""

T = TypeVar("T")
Join = Callable[[T, T], T | None]
"""Returns both items as one, or None where they stay two."""


class Mailbox(Generic[T]):
    """Items that one turn was sent and has not read yet, bounded in number and in bytes."""

    def __init__(
        self, max_items: int = MAX_ITEMS, max_bytes: int = MAX_BYTES, join: Join[T] | None = None
    ) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self._join = join
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._shut = False
        self._changed: anyio.Event | None = None
        """Exists only while a task waits: most items find none waiting."""

    @property
    def full(self) -> bool:
        return len(self._items) >= self._max_items or self._bytes >= self._max_bytes

    async def wait_for_room(self) -> None:
        """Return when there is room, or when the mailbox takes nothing any more."""
        while self.full and not self._shut:
            self.ring()
            await self._change()

    async def put(self, item: T, size: int) -> None:
        await self.wait_for_room()
        self.put_last(item, size)

    def put_last(self, item: T, size: int = 0) -> None:
        """Add the item without waiting, even to a full mailbox."""
        if not self._shut:
            self._add(item, size, joins=True)
            self.ring()

    def offer(self, item: T, size: int, *, quietly: bool = False) -> bool:
        """Add the item without waiting; return False if there is no room.

        A quiet item joins the one before it where `join` allows, and wakes the reader only with the next loud item or
        `ring`.
        """
        if self._shut:
            return True
        if self.full:
            return False
        self._add(item, size, joins=quietly)
        if not quietly:
            self.ring()
        return True

    async def get(self) -> T | None:
        """Return the next item, or None when all are read and no more can come."""
        while not self._items:
            if self._shut:
                return None
            await self._change()
        item, size = self._items.popleft()
        self._bytes -= size
        self.ring()
        return item

    def close(self) -> None:
        """Take nothing more; what is here can still be read."""
        self._shut = True
        self.ring()

    def discard(self) -> None:
        """Take nothing more and drop what is here."""
        self._items.clear()
        self._bytes = 0
        self.close()

    def ring(self) -> None:
        """Wake every waiting task to look again."""
        changed, self._changed = self._changed, None
        if changed is not None:
            changed.set()

    def _add(self, item: T, size: int, *, joins: bool) -> None:
        self._bytes += size
        if joins and self._join is not None and self._items:
            last, before = self._items[-1]
            if before + size <= MAX_JOINED_BYTES and (both := self._join(last, item)) is not None:
                self._items[-1] = (both, before + size)
                return
        self._items.append((item, size))

    async def _change(self) -> None:
        self._changed = self._changed or anyio.Event()
        await self._changed.wait()
