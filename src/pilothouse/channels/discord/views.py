"""Progress is edited when there is room for it, and only the newest of it: an edit that a newer one overtook is not sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from pilothouse.channels.discord.buckets import Buckets
from pilothouse.core.clock import Clock
from pilothouse.core.errors import TryLater

T = TypeVar("T")

PATIENCE_S = 0.5
"""Whoever would wait longer than this looks again later: by then the view is another one, or the turn has ended."""


class _Slot:
    def __init__(self) -> None:
        self.newest = 0
        self.waiting = 0
        self.lock = anyio.Lock()


class Views:
    def __init__(self, buckets: Buckets, clock: Clock) -> None:
        self._buckets = buckets
        self._clock = clock
        self._slots: dict[int, _Slot] = {}

    async def first(self, channel: int, act: Callable[[], Awaitable[T]]) -> T:
        """A new message of progress: it waits for its turn too."""
        await self._wait("POST", channel)
        return await act()

    async def edit(self, channel: int, message: int, act: Callable[[], Awaitable[T]]) -> T | None:
        """None if a newer one took its place."""
        slot = self._slots.setdefault(message, _Slot())
        slot.newest += 1
        slot.waiting += 1
        mine = slot.newest
        try:
            async with slot.lock:
                if slot.newest == mine:
                    await self._wait("PATCH", channel)
                return await act() if slot.newest == mine else None
        finally:
            slot.waiting -= 1
            if not slot.waiting:
                self._slots.pop(message, None)

    async def last(self, message: int, act: Callable[[], Awaitable[T]]) -> T:
        """What stays there: no view that still waits may change it any more, and one on its way goes first."""
        slot = self._slots.get(message)
        if slot is None:
            return await act()
        slot.newest += 1
        async with slot.lock:
            return await act()

    async def _wait(self, method: str, channel: int) -> None:
        wait_s = self._buckets.wait_s(method, channel)
        if wait_s > PATIENCE_S:
            raise TryLater(wait_s, f"Discord's limits leave no room for progress here for {wait_s:.0f} s")
        await self._clock.sleep(wait_s + self._buckets.take_turn_s())
