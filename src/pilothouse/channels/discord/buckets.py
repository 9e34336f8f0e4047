"""How much of Discord's limits is left, as its own headers say it. Views wait for it; what people wait for does not.

discord.py keeps every limit by itself, but whoever takes the last of a bucket makes the next one wait. So views leave
the last one alone, and one channel's never touch another's. Of the limit on all requests together no header tells, so
they are counted here.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping

from msgspec import Struct

from pilothouse.core.clock import Clock

LEFT_ALONE = 1
ALL_GAP_S = 1 / 25
"""Discord takes 50 requests a second in all; views may use half of them."""
ALL_AT_ONCE, ALL_S = 45, 1.05
"""So many requests in this time, whatever they are for: a little less than Discord takes, since not all are equally long
on their way."""
REMEMBERED = 2000

_EDIT = re.compile(r"/channels/(\d+)/messages/\d+$")
_POST = re.compile(r"/channels/(\d+)/messages$")
_APART = re.compile(r"/(interactions|webhooks)/")


def is_apart(path: str) -> bool:
    """Whether it answers an interaction: Discord's limit on all requests together does not count that."""
    return _APART.search(path) is not None


class _Kept(Struct):
    remaining: int
    full_at: float


class Buckets:
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
        """How long a view should wait now."""
        kept, now = self._kept.get((method, str(channel))), self._clock.monotonic()
        if kept is None or kept.remaining > LEFT_ALONE:
            return 0.0
        return max(0.0, kept.full_at - now)

    def take_turn_s(self) -> float:
        """How long until the next of all views may go; whoever asks has taken that place."""
        now = self._clock.monotonic()
        at = max(now, self._next_at)
        self._next_at = at + ALL_GAP_S
        return at - now

    @property
    def is_crowded(self) -> bool:
        """Whether the next request would have to wait."""
        return self._room_at() > self._clock.monotonic()

    async def take_room(self, path: str) -> None:
        """Returns when one more request is not one too many. What acknowledges a press is not counted, and never waits."""
        if not is_apart(path):
            await self._clock.sleep(self.take_room_s())

    def take_room_s(self) -> float:
        """How long until there is room; whoever asks has taken it."""
        at = self._room_at()
        self._left_at.append(at)
        return max(0.0, at - self._clock.monotonic())

    def _room_at(self) -> float:
        now, is_full = self._clock.monotonic(), len(self._left_at) == ALL_AT_ONCE
        return max(now, self._left_at[0] + ALL_S) if is_full else now
