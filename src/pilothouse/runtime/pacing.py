"""How fast one person may send, whatever they send it through. Memory is enough: a restart forgives a minute, and
each process counts what came in through it."""

from __future__ import annotations

import math

from pilothouse.core.budget import Pace
from pilothouse.core.ids import UserId

TOO_FAST = "That is more than {limit} messages a minute. This one was not taken; send it again in {wait_s} s."
SWEEP_AT = 1000


class Pacing:
    def __init__(self) -> None:
        self._free_at: dict[UserId, float] = {}

    def refusal(self, user: UserId, per_minute: int | None, now: float) -> str:
        """Why this one is too much, and when it would not be; empty if it is counted and may pass."""
        if per_minute is None:
            return ""
        free_at, wait_s = Pace(per_minute).admit(self._free_at.get(user, now), now)
        if wait_s > 0:
            return TOO_FAST.format(limit=per_minute, wait_s=math.ceil(wait_s))
        self._sweep(now)
        self._free_at[user] = free_at
        return ""

    def give_back(self, user: UserId, per_minute: int | None) -> None:
        """What a platform brought a second time does not count."""
        if per_minute is not None and user in self._free_at:
            self._free_at[user] -= 60.0 / per_minute

    def _sweep(self, now: float) -> None:
        if len(self._free_at) >= SWEEP_AT:
            self._free_at = {user: at for user, at in self._free_at.items() if at > now}
