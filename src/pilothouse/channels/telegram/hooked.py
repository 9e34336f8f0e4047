"""Receives by webhook: Telegram's call is answered when its update was taken for good, and not before (law 1).

A piece of something larger is written to the journal, and then answered: the next one comes only after that.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from pilothouse.channels.journal import Journal
from pilothouse.channels.telegram.lanes import STEP_S, Lanes, wait_at_most
from pilothouse.channels.telegram.webhook import Door, open_webhook
from pilothouse.channels.telegram.wire import NoUpdate, read_update
from pilothouse.core.clock import Clock


class Hooked:
    def __init__(self, door: Door, lanes: Lanes, journal: Journal, clock: Clock) -> None:
        self._door = door
        self._lanes = lanes
        self._journal = journal
        self._clock = clock
        self._arrival = anyio.Event()
        self._looked = anyio.Event()
        self.succeeded_at: float | None = None
        """When Telegram last called, by the clock that never jumps."""

    async def run(self, opened: Callable[[int], None]) -> None:
        """`opened` is told the port: only then may Telegram be told the address."""
        self._lanes.see([read_update(raw) for raw in await self._journal.read()])
        async with anyio.create_task_group() as tasks, open_webhook(self._door, self._accept) as port:
            opened(port)
            while True:
                arrival = self._arrival
                held_s = self._lanes.hand_over(tasks)
                looked, self._looked = self._looked, anyio.Event()
                looked.set()
                await self._rest(arrival, held_s)

    async def _rest(self, arrival: anyio.Event, held_s: float) -> None:
        if self._lanes.is_busy:
            await wait_at_most(self._clock, min(held_s or STEP_S, STEP_S), arrival)
        else:
            await self._journal.clear()
            await arrival.wait()

    async def _accept(self, raw: bytes) -> bool:
        """What is no update is taken too: Telegram would send it again for ever."""
        self.succeeded_at = self._clock.monotonic()
        one = read_update(raw)
        self._lanes.see([one])
        if isinstance(one, NoUpdate):
            return True
        number, looked = one.update.update_id, self._looked
        arrival, self._arrival = self._arrival, anyio.Event()
        arrival.set()
        await looked.wait()
        if self._lanes.is_waiting(number):
            await self._journal.add(raw)
            return True
        while not self._lanes.is_taken(number):
            await self._lanes.progress()
        return True
