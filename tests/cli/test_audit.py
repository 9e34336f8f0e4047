"""`pilothouse audit`: who did what, and whether anybody touched the list."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import House

from pilothouse.bootstrap.audit_heads import heads_file, note_head, parse_head, read_heads
from pilothouse.cli.options import parse_since
from pilothouse.core.audit import AuditHead, row_hash
from pilothouse.core.errors import ConfigError
from pilothouse.core.store import Tx
from pilothouse.runtime.facts import STORE_NAME
from pilothouse.stores.sqlite import STORE, SqliteConfig

NOW = time.time()


@pytest.fixture
async def used(house: House) -> House:
    def fill(tx: Tx) -> None:
        tx.set_fact(STORE_NAME, "store-1")
        tx.audit.add(NOW - 7200, "ann", "command.new", '{"conversation":"memory:main"}')
        tx.audit.add(NOW - 60, "bob", "ask.refused", '{"ask":"ask-1"}')

    async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as store:
        await store.write(fill)
    return house


def rewrite(house: House) -> None:
    """Another hand writes the whole log anew, hashes and all."""
    with closing(sqlite3.connect(house.home / "pilothouse.db")) as db:
        for name in ("audit_never_changes", "audit_never_shrinks"):
            db.execute(f"DROP TRIGGER {name}")
        db.execute("DELETE FROM audit")
        before = ""
        for seq, who in ((1, "eve"), (2, "eve")):
            before = row_hash(before, seq, 1.0, who, "did", "")
            db.execute("INSERT INTO audit VALUES (?, 1.0, ?, 'did', '', ?)", (seq, who, before))
        db.commit()


@pytest.mark.anyio
async def test_rows_are_listed_newest_first_with_what_they_tell(used: House) -> None:
    lines = used.run("audit").stdout.splitlines()
    assert lines[0].split() == ["ROW", "TIME", "WHO", "WHAT", "DETAIL"]
    assert [line.split()[0] for line in lines[1:]] == ["2", "1"]
    assert "bob" in lines[1] and "ask=ask-1" in lines[1]
    rows = used.json("audit", "--since", "1h")
    assert [(row["seq"], row["who"], row["detail"]) for row in rows] == [(2, "bob", {"ask": "ask-1"})]
    assert used.run("audit", "-n", "1").stderr.startswith("1 older row not shown: -n 1000")
    narrow = used.on_a_terminal("audit", COLUMNS="60")[1].splitlines()
    assert re.match(r"2 +\d\d-\d\d \d\d:\d\d:\d\d  bob", narrow[1])
    piped = used.run("audit", COLUMNS="60").stdout.splitlines()
    assert re.match(r"2 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  bob", piped[1])
    assert used.run("audit", "--since", "yesterdayish").returncode == 2


@pytest.mark.anyio
async def test_verify_ends_with_0_where_nothing_was_touched_and_prints_the_head(used: House) -> None:
    done = used.run("audit", "verify")
    assert done.returncode == 0 and "Intact: 2 rows" in done.stdout
    head = done.stdout.splitlines()[-1].removeprefix("Head: ")
    assert used.run("audit", "verify", "--head", head).returncode == 0
    assert used.run("audit", "verify", "--head", "nonsense").returncode == 1


@pytest.mark.anyio
async def test_verify_names_the_first_row_that_was_changed(used: House) -> None:
    with closing(sqlite3.connect(used.home / "pilothouse.db")) as db:
        db.execute("DROP TRIGGER audit_never_changes")
        db.execute("UPDATE audit SET who = 'eve' WHERE seq = 2")
        db.commit()
    done = used.run("audit", "verify")
    assert (done.returncode, done.stdout) == (1, "")
    assert "row 2 was changed" in done.stderr and "Rows 1 to 1" in done.stderr
    assert used.json("audit", "verify")["intact"] is False


@pytest.mark.anyio
async def test_a_log_that_was_written_anew_shows_against_a_noted_head(used: House) -> None:
    head = parse_head(used.run("audit", "verify").stdout.splitlines()[-1].removeprefix("Head: "))
    rewrite(used)
    assert used.run("audit", "verify").returncode == 0, "by itself nobody can tell"
    told = used.run("audit", "verify", "--head", f"{head.seq}:{head.hash}")
    assert told.returncode == 1 and "rewritten" in told.stderr
    note_head(heads_file(used.home / "state", "store-1"), head, NOW)
    assert used.run("audit", "verify").returncode == 1


def test_without_a_store_there_is_nothing_to_verify_and_none_is_made(house: House) -> None:
    assert house.run("audit").stdout == "nothing has happened yet\n"
    assert house.run("audit", "verify").returncode == 0
    assert list(house.home.iterdir()) == []


def test_heads_are_appended_and_a_line_that_was_cut_counts_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "state" / "heads.txt"
    first, second = AuditHead(1, "a" * 64), AuditHead(7, "b" * 64)
    note_head(file, first, 1.0)
    note_head(file, second, 2.0)
    note_head(file, second, 3.0)
    assert read_heads(file) == [first, second]
    with file.open("a") as out:
        out.write("2026-11-15T00:00:00+00:00 9:abc")
    assert read_heads(file) == [first, second]
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_heads(tmp_path / "none") == []


@pytest.mark.parametrize("text", ["", "5", "5:xyz", "x:" + "a" * 64, "0:" + "a" * 64])
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="NUMBER:HASH"):
        parse_head(text)


@pytest.mark.parametrize(
    ("text", "ago"), [("90s", 90), ("5m", 300), ("24h", 86_400), ("2D", 172_800), ("1w", 604_800)]
)
def test_a_span_counts_back_from_now(text: str, ago: int) -> None:
    assert parse_since(text, 1e9) == 1e9 - ago


def test_a_time_may_name_its_zone() -> None:
    assert parse_since("2001-09-09T01:46:40+00:00", 0) == 1e9
