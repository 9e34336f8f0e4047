"""Asks about a channel until Discord answers: a few questions at a time, through whatever connection there is by then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio

from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.core.clock import Clock

LONGEST_S = 30.0
AT_ONCE = 4

T = TypeVar("T")


class Insisting:
    def __init__(self, clock: Clock, log: Callable[..., None]) -> None:
        self._clock = clock
        self._log = log
        self.calls: Calls | None = None
        """Of the newest connection: the one that somebody began to ask through may be gone."""
        self._seats = anyio.CapacityLimiter(AT_ONCE)

    async def get(self, path: str, query: dict[str, Any], channel: str) -> Any | Trouble:
        """Once."""
        if self.calls is None:
            return Trouble("there was no connection yet")
        async with self._seats:
            return await self.calls.get(path, query=query, channel_id=channel)

    async def until_answered(self, channel: str, ask: Callable[[], Awaitable[T | Trouble]]) -> T | Trouble:
        pause_s = 1.0
        while True:
            answer = await ask()
            if not isinstance(answer, Trouble) or not answer.is_passing:
                return answer
            self._log("discord.history_waits", level="warning", channel=channel, why=answer.text)
            await self._clock.sleep(answer.after_s or pause_s)
            pause_s = min(pause_s * 2, LONGEST_S)
