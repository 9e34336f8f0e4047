"""A consistent copy of the store while a gateway writes to it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from pilothouse.core.errors import StoreError
from pilothouse.stores.sqlite.errors import translate
from pilothouse.stores.sqlite.link import connect, make_readonly


def save_snapshot(path: Path, busy_timeout_s: float, folder: Path) -> Path:
    """Copy the database and its blob files into `folder`; return the copied database.

    The database first: a blob file is written before the row that names it, so the copied rows find their files.
    """
    if not path.is_file():
        raise StoreError(f"there is no store {path}; there is nothing to back up")
    copy = folder / path.name
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with closing(connect(path, busy_timeout_s)) as source, closing(sqlite3.connect(copy)) as target:
            make_readonly(source)
            source.backup(target)
            target.execute("PRAGMA journal_mode=DELETE")  # one file, whole without its journal
    except sqlite3.Error as error:
        raise translate(error, path) from error
    _copy_blobs(path.with_name(path.name + ".blobs"), folder / f"{copy.name}.blobs")
    return copy


def _copy_blobs(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        place = target / file.relative_to(source)
        try:
            if file.is_file():
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copy2(file, place)
        except FileNotFoundError:
            continue  # deleted meanwhile: its row was pruned after the database was copied
