"""The embedded store: one SQLite file, no server. Importing this opens nothing and loads nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path

from msgspec import Struct

from pilothouse.core.store import ReadOnlyStore, Store, StoreSpec


class SqliteConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """With an empty `path` the caller decides where the file is."""

    path: str = ""
    busy_timeout_s: float = 10.0


def open_store(
    config: SqliteConfig, *, on_commit: Callable[[], None] | None = None
) -> AbstractAsyncContextManager[Store]:
    """Open the store. `on_commit` runs on the writer's thread after each commit, before its callers are told."""
    from pilothouse.stores.sqlite.store import open_sqlite

    return open_sqlite(config.path, config.busy_timeout_s, on_commit)


def open_read_only(config: SqliteConfig) -> AbstractContextManager[ReadOnlyStore]:
    from pilothouse.stores.sqlite.readonly import open_look

    return open_look(Path(config.path), config.busy_timeout_s)


def save_store(config: SqliteConfig, folder: Path) -> Path:
    from pilothouse.stores.sqlite.readonly import save_snapshot

    return save_snapshot(Path(config.path), config.busy_timeout_s, folder)


STORE = StoreSpec(
    id="sqlite",
    title="SQLite",
    config=SqliteConfig,
    open=open_store,
    save=save_store,
    open_read_only=open_read_only,
)
