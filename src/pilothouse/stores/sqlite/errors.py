"""Translates SQLite's errors: what happened, to which file, and what to do next."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

from pilothouse.core.errors import StoreError, StoreUnavailable

_PRIMARY = 0xFF
_CONSTRAINT_FOREIGN_KEY = sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY

_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "another process holds the write lock of {path} for too long; try again, and if it stays"
    " so, stop the process that holds it",
    sqlite3.SQLITE_LOCKED: "{path} is locked; try again",
    sqlite3.SQLITE_READONLY: "{path} cannot be written: the file, its folder or the disk is read-only; give this"
    " user write access to the file and to its folder",
    sqlite3.SQLITE_FULL: "the disk that holds {path} is full; free some space and try again",
    sqlite3.SQLITE_IOERR: "reading or writing {path} failed ({error}); look at the disk, its quota and its free"
    " space, and try again",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened; see that its folder exists and that this user may write there",
    sqlite3.SQLITE_PERM: "{path} cannot be used: permission denied; give this user access to it",
    sqlite3.SQLITE_NOMEM: "memory ran out while using {path}",
}

_BROKEN = {
    sqlite3.SQLITE_CORRUPT: "{path} is damaged ({error}); stop Pilothouse and restore a backup of it",
    sqlite3.SQLITE_NOTADB: "{path} is not a SQLite database; name another path, or restore a backup of it",
}


def translate(error: sqlite3.Error, path: Path) -> StoreError:
    """Return the error to raise instead. Nothing of the failed transaction was written."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    if code in _UNAVAILABLE:
        return _as(StoreUnavailable, _UNAVAILABLE[code].format(path=path, error=error), error)
    if code in _BROKEN:
        return _as(StoreError, _BROKEN[code].format(path=path, error=error), error)
    return _as(StoreError, f"the store {path} refused this: {error}", error)


def unusable(error: OSError, path: Path) -> StoreUnavailable:
    """Return the error for a file of the store that cannot be created or written."""
    reason = error.strerror or str(error)
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
        advice = "free some space and try again"
    else:
        advice = f"see that this user may write in {path.parent}"
    found = StoreUnavailable(f"the store {path} cannot be used: {reason}; {advice}")
    found.__cause__ = error
    return found


def missing_parent(error: sqlite3.IntegrityError) -> bool:
    return error.sqlite_errorcode == _CONSTRAINT_FOREIGN_KEY


def _as(kind: type[StoreError], text: str, cause: sqlite3.Error) -> StoreError:
    found = kind(text)
    found.__cause__ = cause
    return found
