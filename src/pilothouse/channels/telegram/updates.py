"""Queues updates: in order within a conversation, side by side across them, each until it is handled for good.

No conversation waits for another, and a button waits for nothing; a command that acts on what runs overtakes a message
whose file is still being fetched. Possible pieces of a larger message wait for the rest. Most updates are handled
within milliseconds. One that is not is written to the disk, so that Telegram may be told that we have it (law 1): an
offset confirms all updates before it. An update that comes twice is recognised by its number.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.intake_queue import Failures, IntakeQueue, Item, Journal
from pilothouse.channels.telegram.content import overtakes
from pilothouse.channels.telegram.pieces import SeenUpdate, gather, message_of, place_of
from pilothouse.channels.telegram.wire import Arrived, NoUpdate, Update, read_update
from pilothouse.core.clock import Clock
from pilothouse.core.message import Address

MOST = 10_000
"""Further updates wait at Telegram, for a day at most."""
REWRITE_AFTER = 1000
NOT_KEPT = "Updates from Telegram cannot be written to this disk ({why}). Telegram sends them again. Free some space, or repair {folder}."

STEP_S = 0.25
"""An update that takes longer to handle is written to the disk."""
AT_ONCE = 32
REMEMBERED = 5000

SlowSection = Callable[[], AbstractAsyncContextManager[None]]
"""Entered for slow work, such as a download: other updates go on meanwhile."""


class UpdateJournal:
    """Updates on the disk. `refused` is the reason if the last write failed, else empty."""

    def __init__(self, folder: Path, log: Callable[..., None]) -> None:
        self._journal = Journal(folder / "updates.jsonl")
        self._log = log
        self._kept: dict[int, bytes] = {}
        self._written = 0
        self._lock = anyio.Lock()
        self.refused = ""

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    async def read(self) -> list[Arrived | NoUpdate]:
        """Read the updates that the last run did not finish. They stay on the disk until they are handled."""
        async with self._lock:
            found = [read_update(raw) for raw in await self._journal.read()]
            self._kept = {one.update.update_id: one.raw for one in found if isinstance(one, Arrived)}
            self._written = len(found)
            if not self._kept:
                await self._clear()
        return found

    async def keep(self, raws: Mapping[int, bytes]) -> None:
        """Write updates to the disk. If that fails, Telegram keeps them."""
        async with self._lock:
            room = MOST - len(self._kept)
            lines = {number: raws[number] for number in sorted(raws)[: max(0, room)]}
            if not lines:
                return
            try:
                if self._written > REWRITE_AFTER + 2 * len(self._kept):
                    await self._journal.rewrite(*self._kept.values(), *lines.values())
                    self._written = len(self._kept)
                else:
                    await self._journal.add(*lines.values())
            except OSError as error:
                self._log("telegram.journal_not_written", level="error", why=str(error))
                self.refused = error.strerror or str(error)
                return
            self.refused = ""
            self._written += len(lines)
            self._kept |= lines

    async def drop(self, numbers: Sequence[int]) -> None:
        """Remove updates that were handled."""
        if not any(number in self._kept for number in numbers):
            return
        async with self._lock:
            for number in numbers:
                self._kept.pop(number, None)
            if not self._kept:
                await self._clear()

    @property
    def trouble(self) -> str:
        """The message for people while the disk refuses writes, else empty."""
        return NOT_KEPT.format(why=self.refused, folder=self._journal.folder) if self.refused else ""

    async def _clear(self) -> None:
        self._written = 0
        try:
            await self._journal.clear()
        except OSError as error:
            # After a restart these updates are recognised as duplicates.
            self._log("telegram.journal_not_cleared", level="warning", why=str(error))


class UpdateHandler(Protocol):
    async def handle(
        self, updates: Sequence[Update], address: Address | None, slow_section: SlowSection
    ) -> None:
        """Handle the updates of one message. When it returns, they may be forgotten."""
        ...

    async def apologise(self, updates: Sequence[Update]) -> None:
        """Tell the sender that these updates failed and were set aside."""
        ...


class UpdateQueues:
    """The queues of one run of the receiver; their work ends with its task group."""

    def __init__(
        self,
        handler: UpdateHandler,
        clock: Clock,
        log: Callable[..., None],
        journal: UpdateJournal,
        failures: Failures,
        *,
        forward_wait_s: float = 0.0,
    ) -> None:
        self._handler = handler
        self._clock = clock
        self._log = log
        self._journal = journal
        self._failures = failures
        self._forward_wait_s = forward_wait_s
        self._workers = anyio.CapacityLimiter(AT_ONCE)
        self._raws: dict[int, bytes] = {}
        self._waiting: dict[int, SeenUpdate] = {}
        self._working: dict[int, float] = {}
        """Updates being handled, with the time when they arrived."""
        self._intake = IntakeQueue("telegram.update", clock, log)
        self._taken: dict[int, None] = {}
        self._arrival = anyio.Event()
        self._progress = anyio.Event()

    async def run(self, tasks: TaskGroup) -> None:
        """Start messages when they are complete, independently of the poll."""
        while True:
            arrival = self._arrival
            held_s = self.start_ready(tasks)
            await self._keep()
            if self._is_busy:
                await wait_at_most(self._clock, min(held_s or STEP_S, STEP_S), arrival.wait)
            else:
                await arrival.wait()

    @property
    def _is_busy(self) -> bool:
        """Something must be looked at again soon. Updates on the disk need no further look."""
        return bool(self._waiting) or any(number not in self._journal for number in self._working)

    def is_safe(self, number: int) -> bool:
        """Tell whether the update was handled or is on the disk, so that it may be confirmed."""
        return number in self._taken or number in self._journal

    def is_refused(self, number: int) -> bool:
        """Tell whether the disk refused the update, so that Telegram must send it again."""
        return bool(self._journal.refused) and not self.is_safe(number)

    def oldest(self, otherwise: int) -> int:
        """Return the first update that may not be confirmed yet."""
        return min((number for number in self._raws if not self.is_safe(number)), default=otherwise)

    async def restore(self) -> None:
        """Queue the updates that the last run left on the disk, before any new ones."""
        self.add(await self._journal.read())

    def add(self, answer: Sequence[Arrived | NoUpdate]) -> None:
        """Queue new updates. Telegram may repeat one, or send two in the wrong order."""
        for one in answer:
            if isinstance(one, NoUpdate):
                self._log("telegram.update_unreadable", level="warning", why=one.why)
            elif not self._knows(one.update.update_id):
                self._raws[one.update.update_id] = one.raw
                self._waiting[one.update.update_id] = SeenUpdate(one.update, self._clock.monotonic())
                if one.lost:
                    number, fields = one.update.update_id, list(one.lost)
                    self._log("telegram.fields_unreadable", level="warning", update_id=number, fields=fields)
        arrival, self._arrival = self._arrival, anyio.Event()
        arrival.set()

    async def wait_until_safe(self, at_most_s: float) -> None:
        """Wait until every update is safe: a moment, unless both the store and the disk fail."""
        await wait_at_most(self._clock, at_most_s, self._until_safe)

    async def _until_safe(self) -> None:
        while not all(map(self.is_safe, self._raws)):
            await self.progress()

    def _knows(self, number: int) -> bool:
        return number in self._raws or number in self._taken

    def start_ready(self, tasks: TaskGroup) -> float:
        """Start complete messages; return how long the others may still wait."""
        before = self._waiting
        seen = [before[number] for number in sorted(before)]
        gathered = gather(seen, self._clock.monotonic(), self._forward_wait_s)
        self._waiting = {one.update.update_id: one for one in gathered.held}
        for updates in gathered.ready:
            numbers = [update.update_id for update in updates]
            self._working |= {number: before[number].seen_at for number in numbers}
            self._put(tasks, updates)
        return gathered.wait_s

    async def _keep(self) -> None:
        """Write updates to the disk that wait for pieces, or that take long."""
        now = self._clock.monotonic()
        late = [number for number, seen_at in self._working.items() if now - seen_at >= STEP_S]
        open_yet = {
            number: self._raws[number] for number in (*self._waiting, *late) if not self.is_safe(number)
        }
        if not open_yet:
            self._journal.refused = ""
        else:
            await self._journal.keep(open_yet)
            await self._journal.drop([number for number in open_yet if number in self._taken])
            self._notify()

    async def progress(self) -> None:
        """Wait until another update was handled or written to the disk."""
        await self._progress.wait()

    def _put(self, tasks: TaskGroup, updates: tuple[Update, ...]) -> None:
        number, address = updates[0].update_id, place_of(updates[0])
        place = address or number
        item = Item(
            partial(self._handle, updates, address, partial(self._slow_section, tasks, place)),
            partial(self._set_aside, updates),
            partial(self._finish, updates),
            {"update_id": number},
            overtakes=_overtakes(updates),
        )
        self._intake.put(tasks, place, item)

    async def _handle(
        self, updates: Sequence[Update], address: Address | None, slow_section: SlowSection
    ) -> None:
        async with self._workers:  # not held while waiting for the store or for a file
            await self._handler.handle(updates, address, slow_section)

    @asynccontextmanager
    async def _slow_section(self, tasks: TaskGroup, place: object) -> AsyncIterator[None]:
        self._workers.release()
        try:
            with self._intake.slow(tasks, place):
                yield
        finally:
            # The caller releases the worker again, also on cancellation.
            with anyio.CancelScope(shield=True):
                await self._workers.acquire()

    async def _set_aside(self, updates: Sequence[Update], error: Exception) -> None:
        await self._failures.set_aside(
            *(self._raws[update.update_id] for update in updates),
            error=error,
            apologise=partial(self._handler.apologise, updates),
            update_id=updates[0].update_id,
        )

    async def _finish(self, updates: Sequence[Update]) -> None:
        for update in updates:
            del self._working[update.update_id], self._raws[update.update_id]
            self._taken[update.update_id] = None
        while len(self._taken) > REMEMBERED:
            del self._taken[next(iter(self._taken))]
        self._notify()
        await self._journal.drop([update.update_id for update in updates])

    def _notify(self) -> None:
        progress, self._progress = self._progress, anyio.Event()
        progress.set()


def _overtakes(updates: Sequence[Update]) -> bool:
    message = message_of(updates[0])
    return message is not None and overtakes(message)


async def wait_at_most(clock: Clock, seconds: float, wait: Callable[[], Awaitable[object]]) -> None:
    async with anyio.create_task_group() as tasks:

        async def sleep() -> None:
            await clock.sleep(seconds)
            tasks.cancel_scope.cancel()

        tasks.start_soon(sleep)
        await wait()
        tasks.cancel_scope.cancel()
