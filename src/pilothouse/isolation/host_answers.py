"""What people answered about hosts, for as long as one jail lives. One question at a time for each host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from time import monotonic

import anyio

from pilothouse.isolation.hosts import Target

ONCE_S = 300.0
"""How long a "once", or a "no", holds: programs try again."""

AskPeople = Callable[[str, str], Awaitable[str]]
"""Asks about a host for a workspace; returns `once`, `session`, `always` or `no`."""


class HostAnswers:
    def __init__(self, workspace: str, ask: AskPeople, now: Callable[[], float] = monotonic) -> None:
        self._workspace = workspace
        self._ask = ask
        self._now = now
        self._locks: dict[Target, anyio.Lock] = defaultdict(anyio.Lock)
        self._kept: dict[Target, tuple[str, float]] = {}

    async def __call__(self, target: Target) -> bool:
        """Tell whether people let the host pass."""
        async with self._locks[target]:
            answer, at = self._kept.get(target, ("", 0.0))
            expired = answer in ("once", "no") and self._now() - at > ONCE_S
            if not answer or expired:
                answer = await self._ask(self._workspace, str(target))
                self._kept[target] = (answer, self._now())
        return answer in ("once", "session", "always")
