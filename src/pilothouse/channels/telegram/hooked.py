"""Receives by webhook: Telegram's call is answered when its update was taken for good, and not before (law 1).

A piece of something larger is written to the journal, and then answered: the next one comes only after that. What the
disk does not take is refused: Telegram brings it again.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio

from pilothouse.channels.journal import Journal
from pilothouse.channels.telegram.lanes import STEP_S, Lanes, wait_at_most
from pilothouse.channels.telegram.webhook import Door, open_webhook
from pilothouse.channels.telegram.wire import NoUpdate, read_update
from pilothouse.core.clock import Clock

NOT_KEPT = "What Telegram brings cannot be kept on this disk ({why}). It is brought again. Make room, or mend {folder}."


class Hooked:
    """`alarm` is told, once, that we had to refuse something."""

    def __init__(
        self,
        door: Door,
        lanes: Lanes,
        journal: Journal,
        clock: Clock,
        log: Callable[..., None],
        alarm: Callable[[str], None],
    ) -> None:
        self._door = door
        self._lanes = lanes
        self._journal = journal
        self._clock = clock
        self._log = log
        self._alarm = alarm
        self._arrival = anyio.Event()
        self._looked = anyio.Event()
        self.called_at: float | None = None
        """When Telegram last called, by the clock that never jumps."""
        self.succeeded_at: float | None = None
        """When something that it brought was last taken."""
        self.refuses = False
        """Whether the last that it brought was not."""

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
            await self._forget()
            await arrival.wait()

    async def _forget(self) -> None:
        """What stays in the journal is a repeat for the next start, and nothing worse."""
        try:
            await self._journal.clear()
        except OSError as error:
            self._log("telegram.journal_not_cleared", level="warning", why=str(error))

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
        number, looked = one.update.update_id, self._looked
        arrival, self._arrival = self._arrival, anyio.Event()
        arrival.set()
        await looked.wait()
        if self._lanes.is_waiting(number):
            return await self._keep(raw)
        while not self._lanes.is_taken(number):
            await self._lanes.progress()
        return True

    async def _keep(self, raw: bytes) -> bool:
        try:
            await self._journal.add(raw)
        except OSError as error:
            self._log("telegram.update_not_kept", level="error", why=str(error))
            if not self.refuses:
                self._alarm(NOT_KEPT.format(why=error.strerror or error, folder=self._journal.folder))
            return False
        return True
