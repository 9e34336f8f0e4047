"""The audit log: each row's hash covers the row before, so that a missing or changed one shows."""

from __future__ import annotations

import hashlib

from pilothouse.core.store import AuditRow
from pilothouse.stores.sqlite.link import Link, to_json

_CHUNK = 1000


def chain(before: str, seq: int, at: float, who: str, what: str, detail: str) -> str:
    return hashlib.sha256(to_json([before, seq, float(at), who, what, detail])).hexdigest()


class AuditTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def add(self, at: float, who: str, what: str, detail: str = "") -> None:
        seq, before = self._link.row("audit.last") or (0, "")
        digest = chain(before, seq + 1, at, who, what, detail)
        self._link.run("audit.add", seq=seq + 1, at=at, who=who, what=what, detail=detail, hash=digest)

    def intact(self) -> bool:
        """Rows cut off at the end show too: the highest number given out is remembered apart."""
        seq, before = 0, ""
        while rows := self._link.rows("audit.chunk", seq=seq, limit=_CHUNK):
            for number, at, who, what, detail, digest in rows:
                if number != seq + 1 or digest != chain(before, number, at, who, what, detail):
                    return False
                seq, before = number, digest
        given = self._link.row("audit.given")
        return seq == (given[0] if given else 0)

    def list(self, *, limit: int = 100) -> list[AuditRow]:
        return [AuditRow(*row) for row in self._link.rows("audit.newest", limit=limit)]
