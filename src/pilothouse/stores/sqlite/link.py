"""A connection with named queries, and the node that it writes for.

The queries are the `.sql` files of a folder, parsed once. `-- name: put: purpose` begins the query `<file>.put`. A name
that begins with an underscore is a fragment: `{_row}` in another query of the same file stands for it. `queue.sql` is
read once per queue.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.ids import Epoch

_HEAD = re.compile(r"^-- name: (\w+): .+$", re.MULTILINE)
_FOLDER = Path(__file__).parent / "sql"
QUEUES = ("inbox", "outbox")

Row: TypeAlias = tuple[Any, ...]

OLDEST_SQLITE = (3, 37, 0)
to_json = msgspec.json.Encoder().encode


def parse_queries(text: str) -> dict[str, str]:
    """Map names to queries, with fragments filled in."""
    _, *pieces = _HEAD.split(text)
    queries = {name: body.strip() for name, body in zip(pieces[::2], pieces[1::2], strict=True)}
    fragments = {name: body for name, body in queries.items() if name.startswith("_")}
    for name, body in fragments.items():
        queries = {key: query.replace(f"{{{name}}}", body) for key, query in queries.items()}
    return {name: query for name, query in queries.items() if name not in fragments}


@cache
def load_queries() -> dict[str, str]:
    queries: dict[str, str] = {}
    for file in sorted(_FOLDER.glob("*.sql")):
        text = file.read_text("utf-8")
        names = QUEUES if file.stem == "queue" else (file.stem,)
        for name in names:
            parsed = parse_queries(text.replace("{queue}", name))
            queries.update({f"{name}.{key}": query for key, query in parsed.items()})
    return queries


class Link:
    """Runs named queries. Each statement is fetched completely, so none is pending when a unit returns."""

    __slots__ = ("_passed", "_sql", "db", "epoch", "seen")

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self.epoch: Epoch | None = None
        self._passed: Epoch | None = None
        self.seen: dict[tuple[str, str], Any] = {}
        """Cache of rows that this transaction read or wrote, by table and id. Nothing else can change them meanwhile;
        every write here updates it."""
        self._sql = load_queries()

    def rows(self, name: str, /, **values: Any) -> list[Row]:
        return self.db.execute(self._sql[name], values).fetchall()

    def row(self, name: str, /, **values: Any) -> Row | None:
        rows = self.db.execute(self._sql[name], values).fetchall()
        return rows[0] if rows else None

    def run(self, name: str, /, **values: Any) -> int:
        """Run a statement and return how many rows it changed."""
        return self.db.execute(self._sql[name], values).rowcount

    def run_many(self, name: str, values: Sequence[dict[str, Any]]) -> None:
        self.db.executemany(self._sql[name], values)

    def begin(self, *, write: bool = False) -> None:
        """Begin a transaction with an empty cache."""
        self.db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        self.forget()

    def own_epoch(self, deed: str) -> Epoch:
        if self.epoch is None:
            raise StoreError(f"only a node may {deed}: join the store first")
        return self.epoch

    def check_fence(self) -> None:
        """Raise `Fenced` if this node may not write. A missing row means it was fenced long ago and pruned.

        One check serves a whole transaction: nobody can fence us while it holds the write lock.
        """
        if self.epoch is None or self.epoch == self._passed:
            return
        if self.row("nodes.may_write", epoch=self.epoch) is None:
            raise Fenced(
                f"node {self.epoch} may no longer write: it left, or another process took over from it;"
                " restart it"
            )
        self._passed = self.epoch

    def forget_fence(self) -> None:
        """Check again: the nodes changed."""
        self._passed = None

    def forget(self) -> None:
        """Clear the cache at the start of a transaction and after a rollback."""
        self._passed = None
        self.seen.clear()


def connect(path: Path, busy_timeout_s: float) -> sqlite3.Connection:
    """Open a connection without changing the file. The busy timeout is set first: even a read may have to wait."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        wanted = ".".join(map(str, OLDEST_SQLITE))
        raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old, the store needs {wanted} or newer")
    db = sqlite3.connect(
        path, timeout=busy_timeout_s, isolation_level=None, cached_statements=256, check_same_thread=False
    )
    db.execute(f"PRAGMA busy_timeout = {int(busy_timeout_s * 1000)}")
    return db


def quick_check(path: Path) -> str:
    """Check every page of the file, which is slow if it is large. Returns the problem, or nothing."""
    db = connect(path, 10.0)
    try:
        found = [row[0] for row in db.execute("PRAGMA quick_check(1)")]
    except sqlite3.DatabaseError as error:
        return str(error)
    finally:
        db.close()
    return "" if found == ["ok"] else f"the file is damaged: {found[0]}"


def make_file(path: Path) -> None:
    """Create the file with mode 0600 from the start; SQLite gives its journal the same mode.

    What others could read or replace, as after a backup was copied by hand, is made private. A link that another user
    made is refused.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_symlink() and path.lstat().st_uid not in (0, os.geteuid()):
        raise StoreError(f"{path} is a link that another user made; remove it, or name another path")
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    for tail in ("", "-wal", "-shm", ".blobs"):
        _take_away(path.with_name(path.name + tail), 0o077)
    if not path.parent.stat().st_mode & stat.S_ISVTX:  # as in /tmp
        _take_away(path.parent, 0o002)


def _take_away(path: Path, rights: int) -> None:
    """Remove rights of others from a file or folder, if it exists and is ours."""
    with suppress(FileNotFoundError, PermissionError):
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & rights:
            path.chmod(mode & ~rights)


def make_durable(db: sqlite3.Connection, path: Path) -> None:
    """Set WAL, so that readers never wait, and FULL, so that a commit survives a power cut. What is deleted or replaced, such
    as an API key that was typed into a chat, is overwritten."""
    mode = _set_wal(db)
    if mode != "wal":
        raise StoreError(f"{path} cannot use a write-ahead log here (mode {mode}); move it to a local disk")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA secure_delete = ON")
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("PRAGMA temp_store = MEMORY")
    db.execute("PRAGMA cache_size = -32000")
    db.execute("PRAGMA journal_size_limit = 67108864")


def _set_wal(db: sqlite3.Connection) -> str:
    """Wait for another process that sets it on the same new file: SQLite itself does not wait here, but fails."""
    deadline = time.monotonic() + db.execute("PRAGMA busy_timeout").fetchone()[0] / 1000
    while True:
        try:
            return db.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def make_readonly(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA query_only = ON")
    db.execute("PRAGMA temp_store = MEMORY")
