"""Takes updates: in order within a conversation, side by side across them, each until it is taken for good.

One conversation never waits for another, nor a button for anything. What may be a piece of something larger waits for
the rest of it. An update that comes twice is known by its number.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.telegram.joining import Bit, gather, place_of
from pilothouse.channels.telegram.wire import Arrived, NoUpdate, Update
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced, StoreUnavailable
from pilothouse.core.message import Address

STEP_S = 0.25
"""How long others wait at most while something is being joined or fetched."""
AT_ONCE = 32
REMEMBERED = 5000
RETRY_S = 30.0

Take = Callable[[Sequence[Update], Address | None], Awaitable[None]]
Lane = Address | int


class Lanes:
    """For one run of whoever receives: what it works on ends with that run's task group."""

    def __init__(self, take: Take, clock: Clock, log: Callable[..., None]) -> None:
        self._take = take
        self._clock = clock
        self._log = log
        self._seats = anyio.CapacityLimiter(AT_ONCE)
        self._waiting: dict[int, Bit] = {}
        self._working: set[int] = set()
        self._lanes: dict[Lane, deque[tuple[Update, ...]]] = {}
        self._taken: dict[int, None] = {}
        self._progress = anyio.Event()

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._working)

    def is_taken(self, number: int) -> bool:
        return number in self._taken

    def is_waiting(self, number: int) -> bool:
        """For the rest of what it is a piece of, or behind such a piece."""
        return number in self._waiting

    def oldest(self, otherwise: int) -> int:
        """The first update that is not taken yet."""
        return min((*self._waiting, *self._working), default=otherwise)

    def see(self, answer: Sequence[Arrived | NoUpdate]) -> None:
        """Telegram may repeat an update, and tell two in the wrong order."""
        for one in answer:
            if isinstance(one, NoUpdate):
                self._log("telegram.update_unreadable", level="warning", why=one.why)
            elif not self._knows(one.update.update_id):
                self._waiting[one.update.update_id] = Bit(one.update, self._clock.monotonic())
                if one.lost:
                    number, fields = one.update.update_id, list(one.lost)
                    self._log("telegram.fields_unreadable", level="warning", update_id=number, fields=fields)

    def _knows(self, number: int) -> bool:
        return number in self._waiting or number in self._working or number in self._taken

    def hand_over(self, tasks: TaskGroup) -> float:
        """Starts what is complete; how long the rest may still have to wait."""
        bits = [self._waiting[number] for number in sorted(self._waiting)]
        gathered = gather(bits, self._clock.monotonic())
        self._waiting = {bit.update.update_id: bit for bit in gathered.held}
        for updates in gathered.ready:
            self._working |= {update.update_id for update in updates}
            lane: Lane = place_of(updates[0]) or updates[0].update_id
            if lane in self._lanes:
                self._lanes[lane].append(updates)
            else:
                self._lanes[lane] = deque([updates])
                tasks.start_soon(self._work, lane)
        return gathered.wait_s

    async def rest(self, seconds: float) -> None:
        """Until something was taken, or it is time to look again."""
        never = anyio.Event()
        await wait_at_most(self._clock, seconds, never if self._waiting else self._progress)

    async def progress(self) -> None:
        """Until the next update was taken."""
        await self._progress.wait()

    async def _work(self, lane: Lane) -> None:
        queue = self._lanes[lane]
        while queue:
            updates = queue[0]
            await self._take_surely(updates, lane if isinstance(lane, Address) else None)
            queue.popleft()
            self._finish(updates)
        del self._lanes[lane]

    async def _take_surely(self, updates: Sequence[Update], address: Address | None) -> None:
        """A store that is locked or full is waited for. What breaks us is passed over, or it would break us for ever."""
        pause_s = 1.0
        while True:
            try:
                async with self._seats:  # whoever waits for the store keeps nobody from theirs
                    return await self._take(updates, address)
            except StoreUnavailable as error:
                self._log("telegram.update_waits", update_id=updates[0].update_id, why=str(error))
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_S)
            except Fenced:
                raise
            except Exception as error:  # noqa: BLE001 - one message must not cost all others
                why = f"{type(error).__name__}: {error}"
                self._log("telegram.update_failed", level="error", update_id=updates[0].update_id, why=why)
                return None

    def _finish(self, updates: Sequence[Update]) -> None:
        for update in updates:
            self._working.discard(update.update_id)
            self._taken[update.update_id] = None
        while len(self._taken) > REMEMBERED:
            del self._taken[next(iter(self._taken))]
        progress, self._progress = self._progress, anyio.Event()
        progress.set()


async def wait_at_most(clock: Clock, seconds: float, event: anyio.Event) -> None:
    async with anyio.create_task_group() as tasks:

        async def sleep() -> None:
            await clock.sleep(seconds)
            tasks.cancel_scope.cancel()

        tasks.start_soon(sleep)
        await event.wait()
        tasks.cancel_scope.cancel()
