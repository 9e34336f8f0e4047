"""The audit log: append-only by triggers, chained by hashes. Its head is stored apart from its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pilothouse.core.audit import AuditHead, AuditRow, Verified, row_hash, verify
from pilothouse.stores.sqlite.link import Link

_CHUNK = 1000


class AuditTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def add(self, at: float, who: str, what: str, detail: str = "") -> None:
        seq, before = self._link.row("audit.last") or (0, "")
        digest = row_hash(before, seq + 1, at, who, what, detail)
        self._link.run("audit.add", seq=seq + 1, at=at, who=who, what=what, detail=detail, hash=digest)

    def after(self, seq: int, *, limit: int = _CHUNK) -> list[AuditRow]:
        return [AuditRow(*row) for row in self._link.rows("audit.after", seq=seq, limit=limit)]

    def list(self, *, limit: int = 100, since: float | None = None) -> list[AuditRow]:
        return [AuditRow(*row) for row in self._link.rows("audit.newest", limit=limit, since=since)]

    def head(self) -> AuditHead:
        return AuditHead(*self._link.rows("audit.head")[0])

    def verify(self, noted: Sequence[AuditHead] = ()) -> Verified:
        return verify(self._all(), self.head(), noted)

    def _all(self) -> Iterator[AuditRow]:
        seq = -(2**62)  # a forged row with a number below one must show
        while rows := self.after(seq):
            yield from rows
            seq = rows[-1].seq
