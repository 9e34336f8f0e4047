"""A session log that is read again and again: its program tells other processes of no change."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path

import anyio

from pilothouse.core.engine import Step

Read = Callable[[], Awaitable[Sequence[Step]]]
"""Returns the steps that are new since the last call; the first one returns the current or last turn."""


class PolledLog:
    """`open_reader` gives such a function, and closes afterwards what it needed."""

    def __init__(
        self,
        where: str,
        used_at: Callable[[], float],
        open_reader: Callable[[], AbstractAsyncContextManager[Read]],
        every_s: float,
    ) -> None:
        self.where = where
        self._used_at = used_at
        self._open_reader = open_reader
        self._every_s = every_s

    @property
    def used_at(self) -> float:
        return self._used_at()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AsyncIterator[Sequence[Step]]]:
        async with self._open_reader() as read, aclosing(self._poll(read)) as steps:
            yield steps

    async def _poll(self, read: Read) -> AsyncGenerator[Sequence[Step], None]:
        while True:
            yield await read()
            await anyio.sleep(self._every_s)


def named_folder(word: str) -> Path | None:
    """Return the folder that a word of `pilothouse watch` names; None if it is no path, or no folder."""
    if os.sep not in word and word not in (".", "..", "~"):
        return None
    path = Path(word).expanduser()
    return path.resolve() if path.is_dir() else None
