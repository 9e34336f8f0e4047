"""The audit log in a real file: whatever another hand does to its rows is found, and plain SQL is refused."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.stores.sqlite_cases import change, open_at, query

from pilothouse.core.audit import AuditHead, Verified, row_hash

pytestmark = pytest.mark.anyio
ROWS = 6
COLUMNS = ("at", "who", "what", "detail", "hash")
UNLOCK = ("audit_never_changes", "audit_never_shrinks", "audit_only_grows", "audit_keeps_its_head")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "p.db"

    async def fill() -> None:
        async with open_at(path) as store:
            for n in range(ROWS):
                await store.write(lambda tx, n=n: tx.audit.add(float(n), f"u{n}", f"did {n}", f'{{"n":{n}}}'))

    anyio.run(fill)
    return path


def verified(path: Path, noted: tuple[AuditHead, ...] = ()) -> Verified:
    async def look() -> Verified:
        async with open_at(path) as store:
            return await store.read(lambda tx: tx.audit.verify(noted))

    return anyio.run(look)


def tampered(written: Path, *statements: tuple[str, tuple[object, ...]]) -> Verified:
    """What is found after another hand took the locks off and did this."""
    copy = written.with_name("copy.db")
    for end in ("", "-wal", "-shm"):
        Path(f"{copy}{end}").unlink(missing_ok=True)
    shutil.copy(written, copy)
    with closing(sqlite3.connect(copy)) as db:
        for name in UNLOCK:
            db.execute(f"DROP TRIGGER {name}")
        for sql, values in statements:
            db.execute(sql, values)
        db.commit()
    return verified(copy)


@st.composite
def tamperings(draw: st.DrawFn) -> list[tuple[str, tuple[object, ...]]]:
    """An edit, a deletion, an insertion or a reorder of any row."""
    seq, other = draw(st.lists(st.integers(1, ROWS), min_size=2, max_size=2, unique=True))
    kind = draw(st.sampled_from(["edit", "delete", "cut", "insert", "swap", "renumber", "rehash"]))
    if kind == "edit":
        column = draw(st.sampled_from(COLUMNS))
        value = draw(st.floats(100, 200)) if column == "at" else draw(st.text("xyz0", min_size=1, max_size=8))
        return [(f"UPDATE audit SET {column} = ? WHERE seq = ?", (value, seq))]
    if kind == "delete":
        return [("DELETE FROM audit WHERE seq = ?", (seq,))]
    if kind == "cut":
        return [("DELETE FROM audit WHERE seq >= ?", (seq,))]
    if kind == "insert":
        where = draw(st.sampled_from([-3, 0, ROWS + 1, ROWS + 2]))
        return [("INSERT INTO audit VALUES (?, 1.0, 'eve', 'did', '', ?)", (where, "0" * 64))]
    if kind == "swap":
        steps = ((seq, -1), (other, seq), (-1, other))
        return [("UPDATE audit SET seq = ? WHERE seq = ?", (to, of)) for of, to in steps]
    if kind == "renumber":
        return [("UPDATE audit SET seq = ? WHERE seq = ?", (draw(st.sampled_from([-1, 0, 99])), seq))]
    forged = row_hash("", seq, 1.0, "eve", "did", "")
    return [
        (
            "UPDATE audit SET at = 1.0, who = 'eve', what = 'did', detail = '', hash = ? WHERE seq = ?",
            (forged, seq),
        )
    ]


@given(tamperings())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_edit_deletion_insertion_or_reorder_is_found(
    written: Path, statements: list[tuple[str, tuple[object, ...]]]
) -> None:
    found = tampered(written, *statements)
    assert not found.intact and found.broken_at is not None
    assert found.rows < ROWS or found.broken_at >= ROWS


def test_what_nobody_touched_is_intact(written: Path) -> None:
    assert tampered(written) == verified(written)
    assert verified(written).rows == ROWS


def test_a_last_row_that_was_made_anew_shows_against_the_head_that_the_store_keeps(written: Path) -> None:
    before = query(written, f"SELECT hash FROM audit WHERE seq = {ROWS - 1}")[0][0]
    forged = row_hash(before, ROWS, 1.0, "eve", "did", "")
    values = (1.0, "eve", "did", "", forged, ROWS)
    found = tampered(
        written, ("UPDATE audit SET at = ?, who = ?, what = ?, detail = ?, hash = ? WHERE seq = ?", values)
    )
    assert found.broken_at == ROWS


@pytest.mark.parametrize("seq", [1, ROWS, ROWS + 2])
def test_the_database_refuses_a_row_anywhere_but_at_the_end(written: Path, seq: int) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        change(written, f"INSERT OR REPLACE INTO audit VALUES ({seq}, 1.0, 'eve', 'did', '', '')")


def test_the_head_survives_what_empties_everything_else(written: Path) -> None:
    found = tampered(written, ("DELETE FROM audit", ()), ("DELETE FROM sqlite_sequence", ()))
    assert not found.intact
    found = tampered(written, ("DELETE FROM audit", ()), ("DELETE FROM facts", ()))
    assert not found.intact
