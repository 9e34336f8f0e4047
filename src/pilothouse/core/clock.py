"""Port: the clock, which is always an argument. `now` is UTC epoch seconds and may jump; `monotonic` never does."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...
