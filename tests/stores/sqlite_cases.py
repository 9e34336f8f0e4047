"""What the tests of the SQLite store share: opening it, and child processes that use it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

from pilothouse.core.store import Store
from pilothouse.stores.sqlite import STORE, SqliteConfig

HERE = Path(__file__).parent

CHILD = """
import os, sys, anyio
from pathlib import Path
from pilothouse.stores.sqlite import STORE, SqliteConfig
from pilothouse.core.ids import MessageId
from pilothouse.testing.store_builders import *
PATH = sys.argv[1]
ARGS = sys.argv[2:]
def open_store(**more):
    return STORE.open(SqliteConfig(path=PATH, busy_timeout_s=20.0), **more)
"""
"""The opening lines of every child; its own come behind them."""


def open_at(
    path: Path, *, busy_timeout_s: float = 10.0, on_commit: Callable[[], None] | None = None
) -> AbstractAsyncContextManager[Store]:
    config = SqliteConfig(path=str(path), busy_timeout_s=busy_timeout_s)
    return STORE.open(config, on_commit=on_commit)


def child(script: str, path: Path, *args: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + script, str(path), *args],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        **options,
    )


def output(process: subprocess.Popen[str]) -> str:
    text, _ = process.communicate(timeout=100)
    return text


def query(path: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(sql, values).fetchall()


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)
