"""Large blobs as files. All of it happens under the database's write lock, so no two processes meet here.

A file is written and synced as `new/<hash>` and linked to its place before its row is committed; the name in
`new/` goes after that. Whatever is found in `new/` later belongs to a transaction that may have failed: `settle`
keeps the file if its row is there, and removes it otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


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
        """Before a commit: what a unit wrote and then rolled back."""
        for digest in self._fresh:
            if not recorded(digest):
                self.remove(digest)

    def forget_fresh(self) -> None:
        """After a commit. Without one the names stay in `new/` for `settle`."""
        for digest in self._fresh:
            (self._new / digest).unlink(missing_ok=True)
        self._fresh.clear()

    def settle(self, recorded: Callable[[str], bool]) -> None:
        """At the start: what a crash left behind."""
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
    """Some file systems have no links. There a crash may leave a file without a row, which harms nobody."""
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
