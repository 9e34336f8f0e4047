"""Numbered migrations. Each commits together with its number, so that a crash leaves no half-applied one.

A store with a newer schema, or a file that is not ours, is refused before anything is changed. Before an upgrade the
file is copied beside itself.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pilothouse.core.errors import StoreError, StoreTooNew
from pilothouse.stores.sqlite.link import connect

APPLICATION_ID = 0x50494C48
"""Stands in the file header as "PILH", and tells our file from other SQLite databases."""

MIGRATIONS = Path(__file__).parent / "migrations"


def load_migrations(folder: Path = MIGRATIONS) -> list[str]:
    """Return the scripts in order, numbered from 1 without a gap."""
    files = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*.sql"))
    numbers = [int(file.name[:4]) for file in files]
    if numbers != list(range(1, len(files) + 1)):
        raise StoreError(f"the migrations in {folder} are not numbered 1 to {len(files)}: {numbers}")
    return [file.read_text("utf-8") for file in files]


def statements(script: str) -> Iterator[str]:
    """Split a script into statements: `executescript` would commit in between."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if pending.strip() and sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending


def schema_version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def check_ours(db: sqlite3.Connection, path: Path, newest: int) -> None:
    """Raise if the file belongs to another program or to a newer Pilothouse.

    One transaction reads all three: another process may be creating the store at this moment.
    """
    db.execute("BEGIN")
    try:
        version = schema_version(db)
        mark = db.execute("PRAGMA application_id").fetchone()[0]
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    finally:
        if db.in_transaction:  # a damaged file ends it by itself
            db.execute("COMMIT")
    if mark != APPLICATION_ID and tables:
        raise StoreError(f"{path} is a SQLite database of another program; name another path for the store")
    if version > newest:
        raise StoreTooNew(
            f"{path} was written by a newer Pilothouse: its schema is {version}, this one knows {newest};"
            " upgrade Pilothouse, or name another path for the store"
        )


def migrate(db: sqlite3.Connection, path: Path, scripts: list[str]) -> None:
    """Bring the schema up to date; another process may be doing the same."""
    while schema_version(db) < len(scripts):
        db.execute("BEGIN IMMEDIATE")
        try:
            _step(db, path, scripts)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def _step(db: sqlite3.Connection, path: Path, scripts: list[str]) -> None:
    version = schema_version(db)
    if version >= len(scripts):
        return
    reached = version + 1
    if version > 0:
        keep_copy(path, version)
    else:  # a new store is made in one transaction and needs no copy
        reached = len(scripts)
    for script in scripts[version:reached]:
        for statement in statements(script):
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {reached}")


def backup_path(path: Path, version: int) -> Path:
    return path.with_name(f"{path.name}.schema-{version:04d}.bak")


def keep_copy(path: Path, version: int) -> None:
    """Copy the file through a second connection: SQLite cannot copy from one that is writing. We hold the lock."""
    target = backup_path(path, version)
    draft = target.with_name(target.name + ".tmp")
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    source, copy = connect(path, 10.0), connect(draft, 10.0)
    try:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()
        source.close()
    draft.replace(target)
