"""Secrets of sessions: the only thing that says for whom a tool call is made.

A session has one secret for as long as this process lives, because a warm engine process keeps the one that it was
started with. It is accepted while a turn of the session holds a lease, and for a while after the last lease ended. Secrets
are in memory only.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from msgspec import Struct

from pilothouse.core.clock import Clock
from pilothouse.core.ids import SessionId

AFTER_LEASE_S = 3600.0
"""An engine may list tools, or end a connection, between two turns."""
MOST_SECRETS = 10_000


class _Grant(Struct):
    session_id: SessionId
    secret: str
    leases: int = 0
    until: float = inf


class Access:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._grants: dict[SessionId, _Grant] = {}
        self._by_secret: dict[str, _Grant] = {}

    @contextmanager
    def lease(self, session_id: SessionId) -> Iterator[str]:
        """Yield the session's secret, which is accepted at least until the end of the body."""
        grant = self._grants.get(session_id) or self._make(session_id)
        grant.leases += 1
        try:
            yield grant.secret
        finally:
            grant.leases -= 1
            grant.until = self._clock.monotonic() + AFTER_LEASE_S

    def session_of(self, header: str) -> SessionId | None:
        """Return the session that an `Authorization` header belongs to; None if its secret is unknown or expired."""
        scheme, _, secret = header.partition(" ")
        grant = self._by_secret.get(secret.strip()) if scheme.lower() == "bearer" else None
        if grant is None or not hmac.compare_digest(grant.secret, secret.strip()):
            return None
        return grant.session_id if grant.leases or self._clock.monotonic() < grant.until else None

    def _make(self, session_id: SessionId) -> _Grant:
        self._forget_oldest()
        grant = _Grant(session_id, secrets.token_urlsafe(32))
        self._grants[session_id] = self._by_secret[grant.secret] = grant
        return grant

    def _forget_oldest(self) -> None:
        """Keep the number of secrets bounded. The secret of a running turn stays."""
        idle = (grant for grant in self._grants.values() if not grant.leases)
        if len(self._grants) >= MOST_SECRETS and (oldest := next(idle, None)):
            del self._grants[oldest.session_id], self._by_secret[oldest.secret]
