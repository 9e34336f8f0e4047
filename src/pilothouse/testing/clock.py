"""A clock that a test moves by hand, the real clock, and ids that a test can predict."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from itertools import count

import anyio
import anyio.lowlevel


class FakeClock:
    """`advance` moves wall and monotonic time; `jump` moves the wall clock alone, as a bad NTP server would."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self.on_move: Callable[[], None] = lambda: None
        """Called whenever time has advanced: for tasks that wait for a due time by other means than `sleep`."""

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await anyio.lowlevel.checkpoint()
            return
        woken = anyio.Event()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), woken))
        await woken.wait()

    def jump(self, seconds: float) -> None:
        self._now += seconds

    async def advance(self, seconds: float) -> None:
        """Moves time, wakes every due sleeper in order, and lets each one run.

        A task that was just started reaches its sleep first, so it sleeps from the old time.
        """
        if seconds < 0:
            raise ValueError(
                f"time passes forwards, not by {seconds} s; use jump for a wall clock that is set back"
            )
        await anyio.wait_all_tasks_blocked()
        end = self._monotonic + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            at, _, woken = heapq.heappop(self._sleepers)
            self._move(at)
            woken.set()
            await anyio.wait_all_tasks_blocked()
        self._move(end)
        await anyio.wait_all_tasks_blocked()

    def _move(self, to: float) -> None:
        self._now += to - self._monotonic
        self._monotonic = to
        self.on_move()


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class CountedIds:
    """Makes `turn-1`, `turn-2`, …: one counter per prefix."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def __call__(self, prefix: str) -> str:
        self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}-{self._counts[prefix]}"
