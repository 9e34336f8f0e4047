"""Paces our requests: progress leaves the last request of each bucket to others, and all requests stay below 50 a second.

discord.py keeps every limit itself, but taking the last request of a bucket makes the next one wait. No header
tells about the limit on all requests together, so they are counted here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import anyio
import anyio.lowlevel
from msgspec import Struct

from pilothouse.core.clock import Clock
from pilothouse.core.errors import TryLater

T = TypeVar("T")

LEFT_ALONE = 1
ALL_GAP_S = 1 / 25
"""Discord takes 50 requests a second in all; progress may use half of them."""
ALL_AT_ONCE, ALL_S = 45, 1.05
"""Requests of all kinds in this time: a little less than Discord takes, since their delays differ."""
REMEMBERED = 2000
PATIENCE_S = 0.5
"""The longest wait for an edit; after that the runtime retries with a newer view."""

_EDIT = re.compile(r"/channels/(\d+)/messages/\d+$")
_POST = re.compile(r"/channels/(\d+)/messages$")
_APART = re.compile(r"/(interactions|webhooks)/")


def is_apart(path: str) -> bool:
    """Is it an answer to an interaction? Discord's limit on all requests does not count those."""
    return _APART.search(path) is not None


class _Kept(Struct):
    remaining: int
    full_at: float


class Pace:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._next_at = 0.0
        self._left_at: deque[float] = deque(maxlen=ALL_AT_ONCE)

    def note(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        found = (_EDIT if method == "PATCH" else _POST).search(path) if method in ("PATCH", "POST") else None
        remaining, reset = headers.get("X-RateLimit-Remaining"), headers.get("X-RateLimit-Reset-After")
        if found is None or remaining is None or reset is None:
            return
        try:
            kept = _Kept(int(remaining), self._clock.monotonic() + float(reset))
        except ValueError:
            return
        self._kept.pop((method, found[1]), None)
        self._kept[method, found[1]] = kept
        while len(self._kept) > REMEMBERED:
            del self._kept[next(iter(self._kept))]

    def wait_s(self, method: str, channel: int) -> float:
        """Return the seconds that progress should wait for a bucket of this channel."""
        kept, now = self._kept.get((method, str(channel))), self._clock.monotonic()
        if kept is None or kept.remaining > LEFT_ALONE:
            return 0.0
        return max(0.0, kept.full_at - now)

    def take_turn_s(self) -> float:
        """Take the next turn among all progress messages; return how long until then."""
        now = self._clock.monotonic()
        at = max(now, self._next_at)
        self._next_at = at + ALL_GAP_S
        return at - now

    @property
    def is_crowded(self) -> bool:
        """Would the next request have to wait?"""
        return self._room_at() > self._clock.monotonic()

    async def take_room(self, path: str) -> None:
        """Wait until one more request is allowed. Answers to interactions are not counted and do not wait."""
        if not is_apart(path):
            await self._clock.sleep(self.take_room_s())

    def take_room_s(self) -> float:
        """Take the next place among all requests; return how long until then."""
        at = self._room_at()
        self._left_at.append(at)
        return max(0.0, at - self._clock.monotonic())

    def _room_at(self) -> float:
        now, is_full = self._clock.monotonic(), len(self._left_at) == ALL_AT_ONCE
        return max(now, self._left_at[0] + ALL_S) if is_full else now


class _Slot:
    def __init__(self) -> None:
        self.newest = 0
        self.waiting = 0
        self.lock = anyio.Lock()


class Views:
    def __init__(self, pace: Pace, clock: Clock) -> None:
        self._pace = pace
        self._clock = clock
        self._slots: dict[int, _Slot] = {}

    async def first(self, channel: int, act: Callable[[], Awaitable[T]]) -> T:
        """Send a new progress message, in its turn. Its number is needed to remove it, so it is sent to the end even if
        this is cancelled meanwhile."""
        await self._wait("POST", channel)
        await anyio.lowlevel.checkpoint_if_cancelled()
        with anyio.CancelScope(shield=True):
            made = await act()
        return made  # noqa: RET504 - to a type checker, a scope may swallow an exception

    async def edit(self, channel: int, message: int, act: Callable[[], Awaitable[T]]) -> T | None:
        """Send an edit, or return None if a newer one replaced it."""
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
        """Make the last change of a message: waiting edits are dropped, one under way goes first."""
        slot = self._slots.get(message)
        if slot is None:
            return await act()
        slot.newest += 1
        async with slot.lock:
            return await act()

    async def _wait(self, method: str, channel: int) -> None:
        wait_s = self._pace.wait_s(method, channel)
        if wait_s > PATIENCE_S:
            raise TryLater(wait_s, f"Discord's limits leave no room for progress here for {wait_s:.0f} s")
        await self._clock.sleep(wait_s + self._pace.take_turn_s())
