"""The SQLite store passes the public conformance suite."""

from pathlib import Path

import pytest

from pilothouse.stores.sqlite import STORE, SqliteConfig
from pilothouse.testing.store import OpenStore, StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        return lambda: STORE.open(SqliteConfig(path=str(tmp_path / "p.db")))
