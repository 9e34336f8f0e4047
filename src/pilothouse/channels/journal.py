"""A file of updates that the platform will not deliver again and that are not in the inbox yet.

An update is on disk before it is confirmed. A torn last line was never confirmed, so it comes again; what is added
after it starts on a new line.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import anyio.to_thread
import msgspec


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = path.exists()

    @property
    def folder(self) -> Path:
        return self._path.parent

    async def add(self, *raw: bytes) -> None:
        """Returns when all of it is on the disk."""
        lines = b"".join(msgspec.json.format(one, indent=-1) + b"\n" for one in raw)
        await anyio.to_thread.run_sync(self._add, lines)
        self._kept = True

    async def read(self) -> list[bytes]:
        if not self._kept:
            return []
        data = await anyio.to_thread.run_sync(self._path.read_bytes)
        whole, _, _ = data.rpartition(b"\n")
        return [line for line in whole.split(b"\n") if line]

    async def clear(self) -> None:
        """Removes the file, once everything in it was taken."""
        if self._kept:
            self._kept = False
            await anyio.to_thread.run_sync(lambda: self._path.unlink(missing_ok=True))

    async def rewrite(self, *raw: bytes) -> None:
        """Replaces the content."""
        lines = b"".join(msgspec.json.format(one, indent=-1) + b"\n" for one in raw)
        await anyio.to_thread.run_sync(self._rewrite, lines)
        self._kept = True

    def _rewrite(self, lines: bytes) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        Journal(fresh)._add(lines)
        fresh.replace(self._path)

    def _add(self, lines: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _append(descriptor, lines)
        finally:
            os.close(descriptor)


def _append(descriptor: int, lines: bytes) -> None:
    """Writes everything or nothing: half a line would spoil the next one."""
    size = os.fstat(descriptor).st_size
    torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
    rest = memoryview(b"\n" + lines if torn else lines)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise
