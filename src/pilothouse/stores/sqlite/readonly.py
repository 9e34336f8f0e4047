"""Read-only access to the store: a look, for commands, and a consistent copy while a gateway writes to it.

No thread, no new file, no migration: an older Pilothouse may be using the file.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from pilothouse.core.errors import StoreError, StoreTooOld
from pilothouse.core.store import Tx
from pilothouse.stores.sqlite.blobs import BlobFiles
from pilothouse.stores.sqlite.errors import translate
from pilothouse.stores.sqlite.link import Link, connect, make_readonly, quick_check
from pilothouse.stores.sqlite.migrate import check_ours, load_migrations, schema_version
from pilothouse.stores.sqlite.tx import SqliteTx

T = TypeVar("T")
MADE_WITHIN_S = 1.5


class SqliteLook:
    def __init__(self, path: Path, db: sqlite3.Connection) -> None:
        self._path = path
        self._db = db
        self._link = Link(db)
        self._tx = SqliteTx(self._link, BlobFiles(path.with_name(path.name + ".blobs")))

    def read(self, unit: Callable[[Tx], T]) -> T:
        try:
            self._link.begin()
            return unit(self._tx)
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def check(self) -> str:
        return quick_check(self._path)


@contextmanager
def open_look(path: Path, busy_timeout_s: float) -> Iterator[SqliteLook]:
    if not path.is_file():
        raise StoreError(f"there is no store {path}; `pilothouse up` creates one")
    try:
        db = connect(path, busy_timeout_s)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    try:
        make_readonly(db)
        _check_schema(db, path)
        yield SqliteLook(path, db)
    finally:
        db.close()


def _check_schema(db: sqlite3.Connection, path: Path) -> None:
    newest = len(load_migrations())
    try:
        check_ours(db, path, newest)
        version = schema_version(db) or _version_soon(db)
    except sqlite3.Error as error:
        raise translate(error, path) from error
    if version == 0:  # a store is made in one transaction, so it is empty
        raise StoreTooOld(
            f"{path} is empty: creating it was interrupted, as on a full disk. `pilothouse up` finishes it."
        )
    if version < newest:
        raise StoreTooOld(
            f"{path} was last used by an older Pilothouse: its schema is {version}, this one reads {newest}."
            " Stop the older one if it still runs, then start this one: `pilothouse up` brings the store up to date."
        )


def _version_soon(db: sqlite3.Connection) -> int:
    """Wait a moment for a gateway that is creating the store right now; returns 0 if none does."""
    deadline = time.monotonic() + MADE_WITHIN_S
    while not (version := schema_version(db)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return version


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
