"""Receives by webhook: Telegram's call is answered when its update was taken for good, or is kept, not before (law 1).

Of a chat Telegram brings the next update only after that: a piece of something larger is kept at once. What the disk does
not take is refused: Telegram brings it again.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from pilothouse.channels.telegram.lanes import Lanes
from pilothouse.channels.telegram.webhook import Door, open_webhook
from pilothouse.channels.telegram.wire import NoUpdate, read_update
from pilothouse.core.clock import Clock


class Hooked:
    def __init__(self, door: Door, lanes: Lanes, clock: Clock) -> None:
        self._door = door
        self._lanes = lanes
        self._clock = clock
        self.called_at: float | None = None
        """When Telegram last called, by the clock that never jumps."""
        self.succeeded_at: float | None = None
        """When something that it brought was last taken."""
        self.refuses = False
        """Whether the last that it brought was not."""

    async def run(self, opened: Callable[[int], None]) -> None:
        """`opened` is told the port: only then may Telegram be told the address."""
        await self._lanes.take_up()
        async with anyio.create_task_group() as tasks, open_webhook(self._door, self._accept) as port:
            opened(port)
            await self._lanes.run(tasks)

    async def _accept(self, raw: bytes) -> bool:
        self.called_at = self._clock.monotonic()
        if taken := await self._take(raw):
            self.succeeded_at = self._clock.monotonic()
        self.refuses = not taken
        return taken

    async def _take(self, raw: bytes) -> bool:
        """What is no update is taken too: Telegram would send it again for ever."""
        one = read_update(raw)
        self._lanes.see([one])
        if isinstance(one, NoUpdate):
            return True
        number = one.update.update_id
        while not self._lanes.is_safe(number):
            await self._lanes.progress()
            if self._lanes.is_refused(number):
                return False
        return True
