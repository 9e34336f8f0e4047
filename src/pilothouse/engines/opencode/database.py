"""OpenCode's own database of sessions, opened read-only, for `pilothouse watch`.

Each row of a message or a part holds the same JSON as the server's answers, without its ids. Another process that writes
tells nobody but the database: `changed` is a cheap question (measured with 1.18.33).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.opencode.api import HISTORY

UNREADABLE = "OpenCode's database {path} cannot be read ({error}). Pilothouse knows the one of OpenCode 1."
WAIT_S = 5.0

_SESSIONS = (
    "SELECT id, directory, title, time_updated FROM session WHERE parent_id IS NULL ORDER BY time_updated"
)
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY id DESC LIMIT ?"
_PARTS = (
    "SELECT id, message_id, data FROM part WHERE session_id = ? AND message_id >= ? ORDER BY message_id, id"
)


def database_path(environment: Mapping[str, str]) -> Path:
    data = environment.get("XDG_DATA_HOME") or os.path.join(environment.get("HOME") or "/", ".local", "share")
    return Path(data, "opencode", environment.get("OPENCODE_DB") or "opencode.db")


class Database:
    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._connection = connection
        self._version: object = None

    def changed(self) -> bool:
        """True the first time, and after each commit of another process."""
        ((version,),) = self._rows("PRAGMA data_version")
        known, self._version = self._version, version
        return known != version

    def sessions(self) -> list[dict[str, Any]]:
        """Return the sessions that people began, as the server lists them."""
        return [
            {"id": id, "directory": directory, "title": title, "time": {"updated": updated}}
            for id, directory, title, updated in self._rows(_SESSIONS)
        ]

    def history(self, session: str) -> list[dict[str, Any]]:
        """Return the last messages of a session, oldest first, as the server's answer has them."""
        rows = self._rows(_MESSAGES, session, HISTORY)[::-1]
        parts: dict[str, list[Any]] = {id: [] for id, _ in rows}
        for id, message, data in self._rows(_PARTS, session, rows[0][0]) if rows else ():
            parts.get(message, []).append({**_decoded(data), "id": id, "messageID": message})
        return [{"info": {**_decoded(data), "id": id}, "parts": parts[id]} for id, data in rows]

    def _rows(self, query: str, *values: object) -> list[Any]:
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _explain(self._path, error) from error


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Raises `EngineError` if it cannot be opened, now or later."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=WAIT_S)
    except sqlite3.Error as error:
        raise _explain(path, error) from error
    with closing(connection):
        yield Database(path, connection)


def _explain(path: Path, error: sqlite3.Error) -> EngineError:
    return EngineError(Failure("bad_request", UNREADABLE.format(path=path, error=error)))


def _decoded(data: object) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data) if isinstance(data, str) else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}
