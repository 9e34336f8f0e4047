"""Updates that wait: on the disk, so that Telegram may be told that we have them (law 1).

Most are taken within milliseconds and never come here. What waits for a file, for its other pieces or for the store would
hold up every other chat, for an offset confirms all that came before it.

Takes updates: in order within a conversation, side by side across them, each until it is taken for good.

One conversation never waits for another, nor a button for anything; and a command that acts on what runs does not wait for
a file that is still being fetched. What may be a piece of something larger waits for the rest of it. What is not taken at
once is kept on the disk. An update that comes twice is known by its number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.failures import Failures
from pilothouse.channels.journal import Journal
from pilothouse.channels.telegram.addresses import overtakes
from pilothouse.channels.telegram.pieces import Bit, gather, message_of, place_of
from pilothouse.channels.telegram.wire import Arrived, NoUpdate, Update, read_update
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced, StoreUnavailable
from pilothouse.core.message import Address

MOST = 10_000
"""What comes beyond waits at Telegram's, for a day at most."""
REWRITE_AFTER = 1000
NOT_KEPT = "What Telegram brings cannot be kept on this disk ({why}). It is brought again. Make room, or mend {folder}."

STEP_S = 0.25
"""How long others wait at most while something is being taken; what takes longer is kept."""
AT_ONCE = 32
REMEMBERED = 5000
RETRY_S = 30.0

Aside = Callable[[], AbstractAsyncContextManager[None]]
"""Entered for what may take long, such as a download: others go on meanwhile."""


class Keeping:
    """`refused` is why the disk took nothing when it was last asked; empty if it did."""

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
        """What was kept and not taken when we last ended. It stays kept until it is."""
        async with self._lock:
            found = [read_update(raw) for raw in await self._journal.read()]
            self._kept = {one.update.update_id: one.raw for one in found if isinstance(one, Arrived)}
            self._written = len(found)
            if not self._kept:
                await self._clear()
        return found

    async def keep(self, raws: Mapping[int, bytes]) -> None:
        """Returns when they are on the disk, or cannot be: then Telegram keeps them."""
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
        """They were taken."""
        if not any(number in self._kept for number in numbers):
            return
        async with self._lock:
            for number in numbers:
                self._kept.pop(number, None)
            if not self._kept:
                await self._clear()

    @property
    def trouble(self) -> str:
        """What a person should know of it, for as long as it is so."""
        return NOT_KEPT.format(why=self.refused, folder=self._journal.folder) if self.refused else ""

    async def _clear(self) -> None:
        self._written = 0
        try:
            await self._journal.clear()
        except OSError as error:
            # What stands there comes again after a restart, and is known then: a duplicate.
            self._log("telegram.journal_not_cleared", level="warning", why=str(error))


class Taking(Protocol):
    async def take(self, updates: Sequence[Update], address: Address | None, aside: Aside) -> None:
        """When it returns, the updates may be forgotten."""
        ...

    async def apologise(self, updates: Sequence[Update]) -> None:
        """They broke us, and were set aside."""
        ...


class _Lane:
    """What waits in one place. `is_aside` while the first of it only waits for something to be fetched."""

    def __init__(self, key: object, address: Address | None) -> None:
        self.key = key
        self.address = address
        self.queue: deque[tuple[Update, ...]] = deque()
        self.is_aside = False


class Lanes:
    """For one run of whoever receives: what it works on ends with that run's task group."""

    def __init__(
        self,
        taker: Taking,
        clock: Clock,
        log: Callable[..., None],
        keeping: Keeping,
        failures: Failures,
        *,
        forward_wait_s: float = 0.0,
    ) -> None:
        self._taker = taker
        self._clock = clock
        self._log = log
        self._keeping = keeping
        self._failures = failures
        self._forward_wait_s = forward_wait_s
        self._seats = anyio.CapacityLimiter(AT_ONCE)
        self._raws: dict[int, bytes] = {}
        self._waiting: dict[int, Bit] = {}
        self._working: dict[int, float] = {}
        """When it was first seen."""
        self._lanes: dict[object, _Lane] = {}
        self._taken: dict[int, None] = {}
        self._arrival = anyio.Event()
        self._progress = anyio.Event()

    async def run(self, tasks: TaskGroup) -> None:
        """Starts what is complete when its time has come, whatever whoever receives is waiting for."""
        while True:
            arrival = self._arrival
            held_s = self.hand_over(tasks)
            await self._keep()
            if self._is_busy:
                await wait_at_most(self._clock, min(held_s or STEP_S, STEP_S), arrival.wait)
            else:
                await arrival.wait()

    @property
    def _is_busy(self) -> bool:
        """Whether it must be looked at again soon; what is kept goes on by itself."""
        return bool(self._waiting) or any(number not in self._keeping for number in self._working)

    def is_safe(self, number: int) -> bool:
        """Taken, or kept: it may be confirmed."""
        return number in self._taken or number in self._keeping

    def is_refused(self, number: int) -> bool:
        """Neither, because the disk takes nothing: it must come again."""
        return bool(self._keeping.refused) and not self.is_safe(number)

    def oldest(self, otherwise: int) -> int:
        """The first update that may not be confirmed yet."""
        return min((number for number in self._raws if not self.is_safe(number)), default=otherwise)

    async def take_up(self) -> None:
        """What was left over when we last ended: it comes before anything new."""
        self.see(await self._keeping.read())

    def see(self, answer: Sequence[Arrived | NoUpdate]) -> None:
        """Telegram may repeat an update, and tell two in the wrong order."""
        for one in answer:
            if isinstance(one, NoUpdate):
                self._log("telegram.update_unreadable", level="warning", why=one.why)
            elif not self._knows(one.update.update_id):
                self._raws[one.update.update_id] = one.raw
                self._waiting[one.update.update_id] = Bit(one.update, self._clock.monotonic())
                if one.lost:
                    number, fields = one.update.update_id, list(one.lost)
                    self._log("telegram.fields_unreadable", level="warning", update_id=number, fields=fields)
        arrival, self._arrival = self._arrival, anyio.Event()
        arrival.set()

    async def settle(self, at_most_s: float) -> None:
        """Until all that was seen is safe. That is a moment, unless neither store nor disk takes it."""
        await wait_at_most(self._clock, at_most_s, self._until_safe)

    async def _until_safe(self) -> None:
        while not all(map(self.is_safe, self._raws)):
            await self.progress()

    def _knows(self, number: int) -> bool:
        return number in self._raws or number in self._taken

    def hand_over(self, tasks: TaskGroup) -> float:
        """Starts what is complete; how long the rest may still have to wait."""
        before = self._waiting
        bits = [before[number] for number in sorted(before)]
        gathered = gather(bits, self._clock.monotonic(), self._forward_wait_s)
        self._waiting = {bit.update.update_id: bit for bit in gathered.held}
        for updates in gathered.ready:
            numbers = [update.update_id for update in updates]
            self._working |= {number: before[number].seen_at for number in numbers}
            place = place_of(updates[0])
            lane = self._put(tasks, place or numbers[0], place, updates)
            if lane.is_aside:
                self._let_pass(tasks, lane)
        return gathered.wait_s

    async def _keep(self) -> None:
        """Writes down what waits for its pieces, and what was not taken at once."""
        now = self._clock.monotonic()
        late = [number for number, seen_at in self._working.items() if now - seen_at >= STEP_S]
        open_yet = {
            number: self._raws[number] for number in (*self._waiting, *late) if not self.is_safe(number)
        }
        if not open_yet:
            self._keeping.refused = ""
        else:
            await self._keeping.keep(open_yet)
            await self._keeping.drop([number for number in open_yet if number in self._taken])
            self._tell_progress()

    async def progress(self) -> None:
        """Until the next update was taken, or kept."""
        await self._progress.wait()

    def _put(
        self, tasks: TaskGroup, key: object, address: Address | None, updates: tuple[Update, ...]
    ) -> _Lane:
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(key, address)
            tasks.start_soon(self._work, tasks, lane)
        lane.queue.append(updates)
        return lane

    def _let_pass(self, tasks: TaskGroup, lane: _Lane) -> None:
        """In a lane of their own, in order: what they are behind only waits for a file."""
        for updates in [one for one in lane.queue if _overtakes(one)]:
            lane.queue.remove(updates)
            self._put(tasks, ("ahead", lane.key), lane.address, updates)

    @asynccontextmanager
    async def _aside(self, tasks: TaskGroup, lane: _Lane) -> AsyncIterator[None]:
        self._seats.release()
        lane.is_aside = True
        self._let_pass(tasks, lane)
        try:
            yield
        finally:
            lane.is_aside = False
            # Whoever took the seat gives it back, also when all is cancelled.
            with anyio.CancelScope(shield=True):
                await self._seats.acquire()

    async def _work(self, tasks: TaskGroup, lane: _Lane) -> None:
        while lane.queue:
            updates = lane.queue.popleft()
            await self._take_surely(tasks, lane, updates)
            self._finish(updates)
            await self._keeping.drop([update.update_id for update in updates])
        del self._lanes[lane.key]

    async def _take_surely(self, tasks: TaskGroup, lane: _Lane, updates: Sequence[Update]) -> None:
        """A store that is locked or full is waited for. What breaks us is set aside, or it would break us for ever."""
        pause_s = 1.0
        while True:
            try:
                # Whoever waits for the store, or for a file, keeps nobody from theirs.
                async with self._seats:
                    return await self._taker.take(updates, lane.address, lambda: self._aside(tasks, lane))
            except StoreUnavailable as error:
                self._log("telegram.update_waits", update_id=updates[0].update_id, why=str(error))
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_S)
            except Fenced:
                raise
            except Exception as error:  # noqa: BLE001 - one message must not cost all others
                return await self._failures.set_aside(
                    *(self._raws[update.update_id] for update in updates),
                    error=error,
                    apologise=partial(self._taker.apologise, updates),
                    update_id=updates[0].update_id,
                )

    def _finish(self, updates: Sequence[Update]) -> None:
        for update in updates:
            del self._working[update.update_id], self._raws[update.update_id]
            self._taken[update.update_id] = None
        while len(self._taken) > REMEMBERED:
            del self._taken[next(iter(self._taken))]
        self._tell_progress()

    def _tell_progress(self) -> None:
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
