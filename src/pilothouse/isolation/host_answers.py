"""Answers of people about hosts, kept as long as one jail lives. One question at a time for each host, and few at a time for
each workspace: a program could ask for new hosts for ever.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from time import monotonic

import anyio

from pilothouse.isolation.hosts import Target

ONCE_S = 300.0
"""Seconds for which "once" and "no" hold: programs try again."""

MAX_OPEN_ASKS = 3
"""The most open asks of one workspace."""
MAX_HOSTS = 1000
"""The most hosts that one jail may ask about."""

AskPeople = Callable[[str, str], Awaitable[str]]
"""Asks about a host for a workspace; returns `once`, `session`, `always` or `no`."""


class HostAnswers:
    """`open_asks` counts for each workspace, over all of its jails."""

    def __init__(
        self,
        workspace: str,
        ask: AskPeople,
        open_asks: Counter[str],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._workspace = workspace
        self._ask = ask
        self._open_asks = open_asks
        self._now = now
        self._locks: dict[Target, anyio.Lock] = defaultdict(anyio.Lock)
        self._kept: dict[Target, tuple[str, float]] = {}

    async def __call__(self, target: Target) -> bool:
        """Tell whether people let the host pass. Where too much was asked already, nobody is asked, and it does not."""
        if target not in self._locks and len(self._locks) >= MAX_HOSTS:
            return False
        async with self._locks[target]:
            answer, at = self._kept.get(target, ("", 0.0))
            expired = answer in ("once", "no") and self._now() - at > ONCE_S
            if not answer or expired:
                if self._open_asks[self._workspace] >= MAX_OPEN_ASKS:
                    return False
                answer = await self._ask_people(target)
                self._kept[target] = (answer, self._now())
        return answer in ("once", "session", "always")

    async def _ask_people(self, target: Target) -> str:
        self._open_asks[self._workspace] += 1
        try:
            return await self._ask(self._workspace, str(target))
        finally:
            self._open_asks[self._workspace] -= 1
