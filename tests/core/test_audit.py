"""The chain of the audit log: every change of a list of rows shows, and a whole one passes."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.audit import AuditHead, AuditRow, row_hash, verify


def written(whats: list[str]) -> list[AuditRow]:
    rows: list[AuditRow] = []
    for seq, what in enumerate(whats, 1):
        digest = row_hash(rows[-1].hash if rows else "", seq, float(seq), "ann", what, "")
        rows.append(AuditRow(seq, float(seq), "ann", what, "", digest))
    return rows


def head_of(rows: list[AuditRow]) -> AuditHead:
    return AuditHead(rows[-1].seq, rows[-1].hash) if rows else AuditHead()


@given(st.lists(st.text(max_size=5), max_size=8), st.data())
def test_a_whole_chain_is_intact_and_agrees_with_every_head_that_it_had(
    whats: list[str], data: st.DataObject
) -> None:
    rows = written(whats)
    noted = [head_of(rows[:n]) for n in data.draw(st.lists(st.integers(0, len(rows)), max_size=3))]
    verified = verify(rows, head_of(rows), noted)
    assert verified.intact and verified.rows == len(rows) and verified.head == head_of(rows)


@given(st.lists(st.text(max_size=5), min_size=1, max_size=6), st.text(max_size=5), st.data())
def test_a_log_that_was_written_anew_shows_against_a_head_that_was_noted(
    whats: list[str], other: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(whats) - 1))
    forged = written([*whats[:at], other + "!", *whats[at + 1 :]])
    before = written([*whats[:at], other + "?", *whats[at + 1 :]])
    noted = head_of(before[: data.draw(st.integers(at + 1, len(whats)))])
    assert verify(forged, head_of(forged)).intact, "by itself nobody can tell"
    verified = verify(forged, head_of(forged), [noted])
    assert not verified.intact and verified.broken_at == noted.seq
    assert "rewritten" in verified.why


def test_a_log_that_lost_its_end_shows_against_its_head() -> None:
    rows = written(["a", "b", "c"])
    cut = verify(rows[:2], head_of(rows))
    assert (cut.rows, cut.broken_at, cut.why) == (2, 3, "it ends with row 2, although row 3 was written")
    assert verify([], head_of(rows)).broken_at == 1
    assert verify([], AuditHead(0, rows[-1].hash)).why, "a head without a number was tampered with too"
    assert verify(rows, AuditHead()).why


def test_the_first_row_that_cannot_be_believed_is_named() -> None:
    rows = written(["a", "b", "c"])
    changed = [rows[0], msgspec.structs.replace(rows[1], who="bob"), rows[2]]
    assert verify(changed, head_of(rows)).broken_at == 2
    assert verify([rows[0], rows[2]], head_of(rows)).why == "row 2 is missing"
