"""What a platform was told we have, or will not bring again, and that is not in the inbox yet: a file.

It is on the disk before anything else happens to it. A torn last line is what was never told: it comes again, and what
is added after it stands on a line of its own.
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
        """When everything in it was taken."""
        if self._kept:
            self._kept = False
            await anyio.to_thread.run_sync(lambda: self._path.unlink(missing_ok=True))

    async def rewrite(self, *raw: bytes) -> None:
        """Keeps nothing but this."""
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
    """All of it, or nothing: half a line would spoil the next one."""
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
