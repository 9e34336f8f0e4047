"""Port: the clock, which is always an argument. `now` is UTC epoch seconds and may jump; `monotonic` never does."""

from __future__ import annotations

from typing import Protocol


def until_next(every_s: float, now: float) -> float:
    """Return the time to the next multiple of `every_s`: periodic tasks that wait for it wake the process together."""
    return every_s - now % every_s


class Clock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...
