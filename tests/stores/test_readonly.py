"""A look at the store changes nothing, and a store whose file is gone says so instead of writing on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stores.sqlite_cases import change, open_at, query

from pilothouse.core.errors import Fenced, StoreError, StoreTooNew, StoreTooOld
from pilothouse.stores.sqlite import STORE, SqliteConfig
from pilothouse.stores.sqlite.migrate import load_migrations

NEWEST = len(load_migrations())


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    path = tmp_path / "p.db"
    async with open_at(path) as store:
        await store.write(lambda tx: tx.set_fact("colour", "blue"))
    return path


def look_up(path: Path, key: str = "colour") -> str | None:
    assert STORE.open_read_only is not None
    with STORE.open_read_only(SqliteConfig(path=str(path))) as look:
        assert look.check() == ""
        return look.read(lambda tx: tx.get_fact(key))


async def test_a_look_sees_what_was_written_also_beside_somebody_who_writes(path: Path) -> None:
    assert look_up(path) == "blue"
    async with open_at(path) as store:
        await store.write(lambda tx: tx.set_fact("colour", "red"))
        assert look_up(path) == "red"


async def test_every_read_of_one_look_sees_what_is_there_by_then(path: Path) -> None:
    assert STORE.open_read_only is not None
    async with open_at(path) as store:
        with STORE.open_read_only(SqliteConfig(path=str(path))) as look:
            assert look.read(lambda tx: tx.get_fact("colour")) == "blue"
            await store.write(lambda tx: tx.set_fact("colour", "red"))
            assert look.read(lambda tx: tx.get_fact("colour")) == "red"


async def test_who_only_looks_cannot_write(path: Path) -> None:
    assert STORE.open_read_only is not None
    with STORE.open_read_only(SqliteConfig(path=str(path))) as look, pytest.raises(StoreError):
        look.read(lambda tx: tx.set_fact("colour", "red"))
    assert look_up(path) == "blue"


@pytest.mark.parametrize(("version", "error"), [(NEWEST + 1, StoreTooNew), (NEWEST - 1, StoreTooOld)])
async def test_another_schema_is_refused_with_what_to_do_and_left_alone(
    path: Path, version: int, error: type[StoreError]
) -> None:
    change(path, f"PRAGMA user_version = {version}")
    with pytest.raises(error, match=r"older|newer"):
        look_up(path)
    assert query(path, "PRAGMA user_version") == [(version,)]
    assert not list(path.parent.glob("*.bak"))


def test_a_store_that_was_never_finished_is_not_taken_for_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    path.touch()
    with pytest.raises(StoreTooOld, match=r"is empty: .*`pilothouse up` finishes it") as told:
        look_up(path)
    assert "older" not in str(told.value)
    assert path.stat().st_size == 0


def test_a_look_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        look_up(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_deleted_or_replaced_in_use_takes_no_more_writes(
    path: Path, replaced: bool
) -> None:
    async with open_at(path) as store:
        path.unlink()
        if replaced:
            path.write_bytes(b"")
        with pytest.raises(Fenced, match="deleted or replaced"):
            await store.write(lambda tx: tx.set_fact("colour", "red"))
