"""The SQLite store passes the public conformance suite."""

from pathlib import Path

import pytest
from tests.new_store import put_new_store

from pilothouse.stores.sqlite import STORE, SqliteConfig
from pilothouse.testing.store import OpenStore, StoreConformance


class TestSqlite(StoreConformance):
    @pytest.fixture
    def open_store(self, tmp_path: Path) -> OpenStore:
        path = put_new_store(tmp_path / "p.db")
        return lambda: STORE.open(SqliteConfig(path=str(path)))
