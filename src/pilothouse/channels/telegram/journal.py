"""Updates that Telegram was told we have, and that are not in the inbox yet: a file, on the disk before we say so.

Only a webhook needs it: Telegram sends the next piece of an album when the one before was answered, so that one must
be kept somewhere until the album is whole. A torn last line is an update that was never answered: it comes again.
"""

from __future__ import annotations

import os
from pathlib import Path

import anyio.to_thread
import msgspec


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = path.exists()

    async def add(self, raw: bytes) -> None:
        """Returns when it is on the disk."""
        await anyio.to_thread.run_sync(self._add, msgspec.json.format(raw, indent=-1))
        self._kept = True

    async def read(self) -> list[bytes]:
        if not self._kept:
            return []
        data = await anyio.to_thread.run_sync(self._path.read_bytes)
        whole, _, _ = data.rpartition(b"\n")
        return [line for line in whole.split(b"\n") if line]

    async def clear(self) -> None:
        """When everything in it was taken."""
        if self._kept:
            self._kept = False
            await anyio.to_thread.run_sync(lambda: self._path.unlink(missing_ok=True))

    def _add(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
