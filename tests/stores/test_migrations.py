"""Schemas: from nothing and by upgrade they are the same, and nothing is changed that must not be."""

from __future__ import annotations

import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.stores.sqlite_cases import HERE, change, child, open_at, output, query

from pilothouse.core.ask import Ask, Decision, hash_payload
from pilothouse.core.errors import ConfigError, StoreError, StoreTooNew
from pilothouse.core.ids import AskId, SessionId
from pilothouse.stores.sqlite.link import connect, make_durable
from pilothouse.stores.sqlite.migrate import (
    APPLICATION_ID,
    backup_path,
    load_migrations,
    migrate,
    schema_version,
    statements,
)
from pilothouse.stores.sqlite.transcripts import space
from pilothouse.testing.store_builders import C1, S1

pytestmark = pytest.mark.anyio
SCRIPTS = load_migrations()
MORE = [*SCRIPTS, "CREATE TABLE more (a TEXT) STRICT;", "ALTER TABLE more ADD COLUMN b TEXT;"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "p.db"


@pytest.fixture
def old(path: Path) -> Path:
    """A store as schema 1 left it, with a little of everything."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript((HERE / "fixtures" / "schema_0001.sql").read_text("utf-8"))
        db.execute("PRAGMA journal_mode = WAL")
    return path


def schema(path: Path) -> list[tuple[str, ...]]:
    return query(path, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")


def upgrade(path: Path, scripts: list[str]) -> int:
    with closing(connect(path, 10.0)) as db:
        migrate(db, path, scripts)
        return schema_version(db)


async def test_an_old_store_and_a_new_one_have_the_same_schema(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.db"
    async with open_at(new), open_at(old):
        pass
    assert schema(old) == schema(new)
    assert query(old, "PRAGMA user_version") == [(len(SCRIPTS),)]
    assert query(old, "PRAGMA application_id") == [(APPLICATION_ID,)]


async def test_an_old_store_keeps_what_it_holds(old: Path) -> None:
    async with open_at(old) as store:
        place = await store.read(lambda tx: tx.conversations.get(C1))
        assert place is not None and place.session_id == S1
        rows = await store.read(lambda tx: tx.inbox.unfinished(C1))
        assert [(row.id, row.status, bytes(row.body)) for row in rows] == [
            ("m2", "queued", b'{"text":"two"}')
        ]
        assert [turn.status for turn in await store.read(lambda tx: tx.turns.of(C1))] == ["done"]
        events = await store.read(lambda tx: tx.events.after(C1, 0))
        assert [event.seq for event in events] == [1, 2]
        assert await store.read(lambda tx: tx.audit.verify().intact)
        assert len(await store.read(lambda tx: tx.asks.open_in(C1))) == 1
        assert len(await store.read(lambda tx: tx.schedules.of())) == 1


async def test_of_an_old_session_only_what_was_told_is_known(old: Path) -> None:
    """`t1` is the turn of session-1; schema 1 wrote 0.0 wherever nothing was told."""
    for id, cost in (("s-free", 0.0), ("s-dear", 0.5)):
        change(old, f"INSERT INTO sessions VALUES (NULL,'{id}','memory:1','script','/w',1.0,1.0,NULL,NULL,NULL,NULL,0,0,1,{cost})")  # fmt: skip
    for id, session, usage in (("t2", "s-free", '{"cost_usd":0.0}'), ("t3", "session-1", '{"cost_usd":null}'), ("t4", "session-1", "torn")):  # fmt: skip
        change(old, f"INSERT INTO turns SELECT NULL,'{id}','{session}',conversation_id,engine,status,cause,prompt,created_at,attempts,began,stop_requested,epoch,retry_at,started_at,ended_at,answer,failure,CAST('{usage}' AS BLOB) FROM turns WHERE id = 't1'")  # fmt: skip
    async with open_at(old) as store:
        found = await store.read(lambda tx: tx.sessions.of())
    assert {row.id: row.cost_usd for row in found} == {"session-1": None, "s-free": 0.0, "s-dear": 0.5}


async def test_an_open_ask_from_before_calls_were_stored_is_answered_as_it_was_asked(path: Path) -> None:
    """`0007` is the schema before; the payload and its hash stay as they are."""
    payload = {"tool": "Bash", "input": {"command": "make"}, "cwd": "/w"}
    ask = Ask(AskId("a1"), "approval", "make", payload, hash_payload(payload))
    stored = {key: value for key, value in msgspec.to_builtins(ask).items() if key != "call"}
    upgrade(path, SCRIPTS[:7])
    change(path, f"INSERT INTO asks (id, conversation_id, session_id, turn_id, engine_key, state, asked_at, payload_hash, ask, used) VALUES ('a1','memory:1','s','t','k','open',1.0,'{ask.payload_hash}',CAST('{msgspec.json.encode(stored).decode()}' AS BLOB),0)")  # fmt: skip
    async with open_at(path) as store:
        row = await store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.ask == ask and row.ask.call is None
        moved = await store.write(
            lambda tx: tx.asks.move(ask.id, "answered", at=2.0, decision=Decision("allow"))
        )
        assert moved.ask == ask
        assert await store.read(lambda tx: tx.asks.unused_answer(SessionId("s"), ask.payload_hash)) == moved
    assert query(path, "SELECT call FROM asks") == [("",)]


def test_step_by_step_and_at_once_give_the_same_schema(tmp_path: Path) -> None:
    slow, quick = tmp_path / "slow.db", tmp_path / "quick.db"
    for count in range(1, len(MORE) + 1):
        assert upgrade(slow, MORE[:count]) == count
    assert upgrade(quick, MORE) == len(MORE)
    assert schema(slow) == schema(quick)


def test_a_copy_is_kept_before_an_upgrade(path: Path) -> None:
    upgrade(path, SCRIPTS)
    before = schema(path)
    change(path, "INSERT INTO facts VALUES ('k', 'v')")
    assert not list(path.parent.glob("*.bak"))
    upgrade(path, MORE)
    copy = backup_path(path, len(SCRIPTS))
    assert schema(copy) == before
    assert query(copy, "SELECT * FROM facts") == [("k", "v")]
    assert query(copy, "PRAGMA integrity_check") == [("ok",)]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not list(path.parent.glob("*.tmp"))


def test_an_interrupted_migration_leaves_the_step_before(path: Path) -> None:
    broken = [*SCRIPTS, MORE[-2], "CREATE TABLE half (a TEXT);\nCREATE TABLE half (a TEXT);"]
    upgrade(path, SCRIPTS)
    with pytest.raises(sqlite3.OperationalError):
        upgrade(path, broken)
    assert query(path, "PRAGMA user_version") == [(len(SCRIPTS) + 1,)]
    assert query(path, "SELECT name FROM sqlite_master WHERE name = 'half'") == []
    assert upgrade(path, MORE) == len(MORE)


def test_a_killed_migration_is_taken_up_again(path: Path) -> None:
    upgrade(path, SCRIPTS)
    killed = child(
        """
import os
from pilothouse.stores.sqlite.link import connect, make_durable
from pilothouse.stores.sqlite.migrate import load_migrations, migrate
db = connect(Path(PATH), 10.0)
db.create_function("die", 0, lambda: os._exit(9))
migrate(db, Path(PATH), [*load_migrations(), "CREATE TABLE half (a TEXT);\\nSELECT die();"])
""",
        path,
    )
    assert killed.wait(30) == 9
    output(killed)
    assert query(path, "PRAGMA user_version") == [(len(SCRIPTS),)]
    assert query(path, "SELECT name FROM sqlite_master WHERE name = 'half'") == []
    assert upgrade(path, MORE) == len(MORE)


async def test_chinese_words_from_before_they_were_indexed_are_found_after_the_upgrade(path: Path) -> None:
    upgrade(path, SCRIPTS[:11])
    for text in ("用户Ann登录 now", "plain"):
        change(
            path,
            "INSERT INTO transcript_entries (session_id, conversation_id, workspace, turn_id, at, role, who, text)"
            f" VALUES ('s', 'c', '/w', 't', 1.0, 'person', 'Ann', '{text}')",
        )
    async with open_at(path) as store:
        for words in ("登录", "ann", "now 用户"):
            (found,) = await store.read(lambda tx, words=words: tx.transcripts.search(words))
            assert found.text == "用户Ann登录 now"
    rows = query(path, "SELECT text, spaced FROM transcript_entries ORDER BY seq")
    assert rows == [(text, space(text)) for text in ("用户Ann登录 now", "plain")]


def test_a_new_store_is_made_whole_or_not_at_all(path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        upgrade(path, [*SCRIPTS, "CREATE TABLE half (a TEXT);\nCREATE TABLE half (a TEXT);"])
    assert query(path, "PRAGMA user_version") == [(0,)]
    assert schema(path) == []


async def test_a_newer_store_is_refused_and_left_alone(path: Path) -> None:
    async with open_at(path):
        pass
    change(path, f"PRAGMA user_version = {len(SCRIPTS) + 1}")
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="newer Pilothouse"):
        async with open_at(path):
            pass
    assert path.read_bytes() == before


async def test_the_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    change(path, "CREATE TABLE theirs (a)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        async with open_at(path):
            pass
    assert path.read_bytes() == before


async def test_what_is_not_a_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"These are my notes. " * 500)
    with pytest.raises(StoreError, match="not a SQLite database"):
        async with open_at(path):
            pass
    assert path.read_bytes().startswith(b"These are my notes.")


async def test_a_store_needs_a_path() -> None:
    with pytest.raises(ConfigError, match="path"):
        async with open_at(Path()) as _:
            pass


async def test_two_processes_may_make_the_store_at_once(path: Path) -> None:
    script = """
async def main():
    async with open_store() as store:
        print(await store.read(lambda tx: tx.nodes.list()))
anyio.run(main)
"""
    children = [child(script, path) for _ in range(3)]
    assert [output(process) for process in children] == ["[]\n"] * 3
    assert not list(path.parent.glob("*.bak"))


def test_two_that_find_no_write_ahead_log_both_set_it(tmp_path: Path) -> None:
    """SQLite fails at once, without its busy timeout, if two connections change the journal of one file."""

    def make(path: Path, both: threading.Barrier) -> int:
        with closing(connect(path, 10.0)) as db:
            both.wait(10)
            make_durable(db, path)
            migrate(db, path, SCRIPTS)
            return schema_version(db)

    with ThreadPoolExecutor(2) as threads:
        for number in range(40):
            ends = [
                threads.submit(make, tmp_path / f"{number}.db", both) for both in [threading.Barrier(2)] * 2
            ]
            assert [end.result() for end in ends] == [len(SCRIPTS)] * 2


def test_a_script_is_cut_where_its_statements_end() -> None:
    script = "-- why; this\nCREATE TABLE a (b);\nCREATE TRIGGER t BEFORE DELETE ON a\nBEGIN SELECT 1; SELECT 2; END;\n"
    assert len(list(statements(script))) == 2


def test_migrations_are_numbered_without_gaps(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_text("")
    (tmp_path / "0003_c.sql").write_text("")
    with pytest.raises(StoreError, match="numbered"):
        load_migrations(tmp_path)
