"""The audit log as a chain: each row's hash covers the row before it, so that no row can be changed, dropped, added or
moved unnoticed. Pure: any copy of the rows can be verified anywhere.

Whoever may rewrite the whole log may also compute every hash anew. That shows only against a head that was noted
where they cannot write.
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
    """The last row: its number and its hash. Zero is the head of an empty log."""

    seq: int = 0
    hash: str = ""


class Verified(Struct, frozen=True):
    """`broken_at` is the first row that cannot be believed; `why` is empty if all of them can."""

    rows: int
    head: AuditHead
    broken_at: int | None = None
    why: str = ""

    @property
    def intact(self) -> bool:
        return not self.why


def chain(before: str, seq: int, at: float, who: str, what: str, detail: str) -> str:
    """The hash of a row that follows the one whose hash is `before`."""
    return hashlib.sha256(_encode([before, seq, float(at), who, what, detail])).hexdigest()


def verify(rows: Iterable[AuditRow], head: AuditHead, noted: Sequence[AuditHead] = ()) -> Verified:
    """`rows` from the first on, `head` as the store remembers it, `noted` as somebody wrote them down before."""
    wanted = {old.seq: old.hash for old in noted}
    last = AuditHead()
    for row in rows:
        if row.seq != last.seq + 1:
            return Verified(last.seq, last, last.seq + 1, f"row {last.seq + 1} is missing")
        if row.hash != chain(last.hash, row.seq, row.at, row.who, row.what, row.detail):
            return Verified(last.seq, last, row.seq, f"row {row.seq} was changed, or put there")
        if wanted.get(row.seq, row.hash) != row.hash:
            why = f"row {row.seq} is not the one that was noted: the log was written anew"
            return Verified(last.seq, last, row.seq, why)
        last = AuditHead(row.seq, row.hash)
    return _ends_right(last, max((head, *noted), key=lambda known: known.seq))


def _ends_right(last: AuditHead, known: AuditHead) -> Verified:
    if last.seq < known.seq:
        why = f"it ends with row {last.seq}, but row {known.seq} was written once"
        return Verified(last.seq, last, last.seq + 1, why)
    if last != known:
        return Verified(last.seq, last, last.seq, f"row {last.seq} is not the last one that was written")
    return Verified(last.seq, last)


class Audit(Protocol):
    """Append-only: no row is ever changed or deleted, not even by pruning."""

    def add(self, at: float, who: str, what: str, detail: str = "") -> None:
        """Chained to the row before, in the transaction of what it tells of."""
        ...

    def after(self, seq: int, *, limit: int = 1000) -> list[AuditRow]:
        """Oldest first."""
        ...

    def list(self, *, limit: int = 100, since: float | None = None) -> list[AuditRow]:
        """Newest first."""
        ...

    def head(self) -> AuditHead:
        """The last row that was written, remembered apart from it: rows cut off at the end show."""
        ...

    def verify(self, noted: Sequence[AuditHead] = ()) -> Verified: ...
