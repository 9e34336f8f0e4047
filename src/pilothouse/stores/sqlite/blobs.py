"""Attachment bytes by their hash: small ones in the database, large ones as files beside it.

A file is written and synced as `new/<hash>` and linked to its place before its row is committed; the name in `new/` is
removed after that. A name found there later belongs to a transaction that may have failed: `settle` keeps the file if
its row exists and deletes it otherwise. All of this happens under the database's write lock.

`blob_uses` says which rows need which bytes. Code that stores JSON which may name a blob calls `note_uses`; the
database drops the use together with the row.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Attachment
from pilothouse.stores.sqlite.link import Link

LARGEST_ROW = 256 * 1024
_MARK = b'"blob":"'
_NAMED = re.compile(rb'"blob":"([0-9a-f]{64})"')


class BlobFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._new = folder / "new"
        self._fresh: set[str] = set()

    def keep(self, digest: str, data: bytes) -> None:
        place = self._place(digest)
        if place.exists():
            return
        for folder in (self._folder, self._new, place.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        draft = self._new / digest
        self._fresh.add(digest)
        _write_synced(draft, data)
        _link_or_move(draft, place)
        _sync_folder(place.parent)

    def read(self, digest: str) -> bytes | None:
        try:
            return self._place(digest).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, digest: str) -> None:
        self._place(digest).unlink(missing_ok=True)

    def drop_unrecorded(self, recorded: Callable[[str], bool]) -> None:
        """Delete files of units that were rolled back. Call it before a commit."""
        for digest in self._fresh:
            if not recorded(digest):
                self.remove(digest)

    def forget_fresh(self) -> None:
        """Remove the names in `new/`. Call it after a commit; otherwise they stay for `settle`."""
        for digest in self._fresh:
            (self._new / digest).unlink(missing_ok=True)
        self._fresh.clear()

    def settle(self, recorded: Callable[[str], bool]) -> None:
        """Clean up after a crash. Call it at the start."""
        if self._new.is_dir():
            self._fresh.update(entry.name for entry in self._new.iterdir())
            self.drop_unrecorded(recorded)
            self.forget_fresh()

    def unsettled(self) -> bool:
        return self._new.is_dir() and any(self._new.iterdir())

    def _place(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]


def _write_synced(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _link_or_move(draft: Path, place: Path) -> None:
    """Link the file, or move it on file systems without links, where a crash may leave a file without a row."""
    try:
        os.link(draft, place)
    except OSError:
        draft.replace(place)


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def note_uses(link: Link, kind: str, id: str, body: bytes) -> None:
    """Record the blobs that a body names. Nearly no row names one, so the check is a byte search."""
    if _MARK not in body:
        return
    for match in _NAMED.finditer(body):
        link.run("blobs.use", owner=f"{kind} {id}", hash=match[1].decode())


class BlobRows:
    def __init__(self, link: Link, files: BlobFiles) -> None:
        self._link = link
        self._files = files

    def put(self, data: bytes, media_type: str, at: float) -> BlobHash:
        digest = hashlib.sha256(data).hexdigest()
        small = len(data) <= LARGEST_ROW
        if not small:
            self._files.keep(digest, data)
        self._link.run(
            "blobs.put",
            hash=digest,
            media_type=media_type,
            size=len(data),
            at=at,
            data=data if small else None,
        )
        return BlobHash(digest)

    def get(self, blob: BlobHash) -> bytes | None:
        row = self._link.row("blobs.get", hash=blob)
        if row is None:
            return None
        return self._files.read(blob) if row[0] is None else row[0]

    def attach(self, data: bytes, name: str, media_type: str, at: float) -> Attachment:
        return Attachment(name, media_type, len(data), self.put(data, media_type, at))

    def prune(self, before: float, limit: int) -> int:
        """Delete unused blobs, files first: a crash leaves an unused row, and `keep` rewrites its file."""
        rows = self._link.rows("blobs.prune", before=before, limit=limit)
        for digest, is_file in rows:
            if is_file:
                self._files.remove(digest)
        return len(rows)
