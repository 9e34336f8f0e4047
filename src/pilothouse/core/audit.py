"""The audit log as a hash chain: each row's hash covers the row before it. Pure, so any copy can be verified anywhere.

A changed, dropped, added or moved row breaks the chain. A log that was rewritten as a whole is detected only by
comparing it with a head that was noted elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec
from msgspec import Struct

_encode = msgspec.json.Encoder().encode


class AuditRow(Struct, frozen=True):
    """`detail` is a JSON object, or empty."""

    seq: int
    at: float
    who: str
    what: str
    detail: str
    hash: str


class AuditHead(Struct, frozen=True):
    """Number and hash of the last row; zero for an empty log."""

    seq: int = 0
    hash: str = ""


class Verified(Struct, frozen=True):
    """`broken_at` is the first row that fails; `why` is empty if none does."""

    rows: int
    head: AuditHead
    broken_at: int | None = None
    why: str = ""

    @property
    def intact(self) -> bool:
        return not self.why


def row_hash(before: str, seq: int, at: float, who: str, what: str, detail: str) -> str:
    """Hash a row; `before` is the hash of the previous one."""
    return hashlib.sha256(_encode([before, seq, float(at), who, what, detail])).hexdigest()


def verify(rows: Iterable[AuditRow], head: AuditHead, noted: Sequence[AuditHead] = ()) -> Verified:
    """Check all `rows` against the store's `head` and against heads `noted` earlier."""
    wanted = {old.seq: old.hash for old in noted}
    last = AuditHead()
    for row in rows:
        if row.seq != last.seq + 1:
            return Verified(last.seq, last, last.seq + 1, f"row {last.seq + 1} is missing")
        if row.hash != row_hash(last.hash, row.seq, row.at, row.who, row.what, row.detail):
            return Verified(last.seq, last, row.seq, f"row {row.seq} was changed or inserted")
        if wanted.get(row.seq, row.hash) != row.hash:
            why = f"row {row.seq} is not the one that was noted before: the log was rewritten"
            return Verified(last.seq, last, row.seq, why)
        last = AuditHead(row.seq, row.hash)
    return _check_end(last, max((head, *noted), key=lambda known: known.seq))


def _check_end(last: AuditHead, known: AuditHead) -> Verified:
    if last.seq < known.seq:
        why = f"it ends with row {last.seq}, although row {known.seq} was written"
        return Verified(last.seq, last, last.seq + 1, why)
    if last != known:
        return Verified(last.seq, last, last.seq, f"row {last.seq} is not the last one that was written")
    return Verified(last.seq, last)


class Audit(Protocol):
    """Append-only: no row is ever changed or deleted, not even by pruning."""

    def add(self, at: float, who: str, what: str, detail: str = "") -> None:
        """Append a row, in the transaction that makes the recorded change."""
        ...

    def after(self, seq: int, *, limit: int = 1000) -> list[AuditRow]:
        """Oldest first."""
        ...

    def list(self, *, limit: int = 100, since: float | None = None) -> list[AuditRow]:
        """Newest first."""
        ...

    def head(self) -> AuditHead:
        """The last row written, stored separately so that a truncated log is detected."""
        ...

    def verify(self, noted: Sequence[AuditHead] = ()) -> Verified: ...
