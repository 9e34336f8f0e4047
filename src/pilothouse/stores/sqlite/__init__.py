"""The embedded store: one SQLite file, no server. Importing this opens nothing and loads nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager

from msgspec import Struct

from pilothouse.core.store import ReadOnlyStore, Store, StoreSpec


class SqliteConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """An empty `path` means the place that whoever opens the store decides."""

    path: str = ""
    busy_timeout_s: float = 10.0


def open_store(
    config: SqliteConfig, *, on_commit: Callable[[], None] | None = None
) -> AbstractAsyncContextManager[Store]:
    """`on_commit` runs in the writer's thread right after each commit, before anybody is told of it."""
    from pilothouse.stores.sqlite.store import open_sqlite

    return open_sqlite(config.path, config.busy_timeout_s, on_commit)


def look_at_store(config: SqliteConfig) -> AbstractContextManager[ReadOnlyStore]:
    from pathlib import Path

    from pilothouse.stores.sqlite.readonly import open_look

    return open_look(Path(config.path), config.busy_timeout_s)


STORE = StoreSpec(id="sqlite", title="SQLite", config=SqliteConfig, open=open_store, look=look_at_store)
