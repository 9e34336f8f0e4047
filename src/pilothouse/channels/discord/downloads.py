"""Whose files are fetched when: as many at a time as may be in memory, and of one person no more than a few.

A host that hangs holds up a message for half a minute. Whoever sends many of those holds up themselves.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import anyio

from pilothouse.channels.discord.attachments import TOTAL_BYTES, Offered, Taken, take_files
from pilothouse.core.engine import Blobs
from pilothouse.core.ids import UserId
from pilothouse.http.allowlist import Fetch

ROOM_BYTES = 4 * TOTAL_BYTES
LEAST_BYTES = ROOM_BYTES // 50
"""What a message counts for at least: each has its connections, too."""
OF_ONE_PERSON = 2
"""Messages, at a time."""


class Downloads:
    def __init__(self, blobs: Blobs, fetch: Fetch) -> None:
        self._blobs = blobs
        self._fetch = fetch
        self._people: WeakValueDictionary[UserId, anyio.CapacityLimiter] = WeakValueDictionary()
        """For as long as somebody fetches, or waits for it."""
        self._used = 0
        self._freed = anyio.Condition()

    async def take(self, by: UserId, files: Sequence[Offered]) -> Taken:
        """Raises only what the blobs raise: a store that takes nothing now."""
        seats = self._people.setdefault(by, anyio.CapacityLimiter(OF_ONE_PERSON))
        announced = sum(max(file.size, 0) for file in files)
        async with seats, self._room(min(max(announced, LEAST_BYTES), TOTAL_BYTES)):
            return await take_files(files, self._blobs, self._fetch)

    @asynccontextmanager
    async def _room(self, size: int) -> AsyncIterator[None]:
        async with self._freed:
            while self._used + size > ROOM_BYTES:
                await self._freed.wait()
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            with anyio.CancelScope(shield=True):
                async with self._freed:
                    self._freed.notify_all()
