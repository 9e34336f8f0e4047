"""Asks Telegram for updates, for ever, and confirms one only when it was taken for good (law 1).

An offset confirms everything before it, so it stands at the oldest update that is not taken yet: one that is being
worked on, or that may be a piece of something larger. Whatever comes twice meanwhile is known by its number. Within a
conversation updates are taken in order; one conversation never waits for another, nor a button for anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.telegram.client import POLL_S, BotClient
from pilothouse.channels.telegram.joining import Bit, gather, place_of
from pilothouse.channels.telegram.setbacks import Setbacks
from pilothouse.channels.telegram.trouble import Conflict, NotTelegram, Trouble
from pilothouse.channels.telegram.wire import Arrived, NoUpdate, Update
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced, StoreUnavailable
from pilothouse.core.message import Address

STEP_S = 0.25
"""How long others wait at most while something is being joined or fetched."""
AT_ONCE = 32
REMEMBERED = 5000
RETRY_S = 30.0
CONFIRM_S = 2.0

Take = Callable[[Sequence[Update], Address | None], Awaitable[None]]
Lane = Address | int


class Poller:
    """`alarm` is told, once for each trouble that lasts, what is wrong and what to do about it."""

    def __init__(
        self,
        client: BotClient,
        take: Take,
        clock: Clock,
        log: Callable[..., None],
        alarm: Callable[[str], None],
    ) -> None:
        self._client = client
        self._take = take
        self._clock = clock
        self._log = log
        self._setbacks = Setbacks(clock, log, alarm)
        self._seats = anyio.CapacityLimiter(AT_ONCE)
        self._waiting: dict[int, Bit] = {}
        self._working: set[int] = set()
        self._lanes: dict[Lane, deque[tuple[Update, ...]]] = {}
        self._taken: dict[int, None] = {}
        self._next = 0
        self._progress = anyio.Event()
        self.succeeded_at: float | None = None
        """When a poll last went well, by the clock that never jumps: its age is the channel's health."""

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                while True:
                    await self._round(tasks)
        finally:
            with anyio.move_on_after(CONFIRM_S, shield=True):
                if self._next:
                    await self._client.get_updates(self._offset, timeout_s=0, limit=1)

    async def _round(self, tasks: TaskGroup) -> None:
        answer = await self._client.get_updates(self._offset, timeout_s=0 if self._is_busy else POLL_S)
        if isinstance(answer, Trouble):
            await self._suffer(answer)
            return
        if answer and not any(isinstance(one, Arrived) for one in answer):
            await self._suffer(NotTelegram("what came are no updates"))
            return
        self.succeeded_at = self._clock.monotonic()
        self._setbacks.over()
        self._see(answer)
        wait_s = self._hand_over(tasks)
        if self._is_busy:
            await self._rest(min(wait_s or STEP_S, STEP_S))

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting or self._working)

    @property
    def _offset(self) -> int:
        return min((*self._waiting, *self._working), default=self._next)

    def _see(self, answer: Sequence[Arrived | NoUpdate]) -> None:
        """Telegram may repeat an update, and tell two in the wrong order."""
        for one in answer:
            if isinstance(one, NoUpdate):
                self._log("telegram.update_unreadable", why=one.why)
        arrived = sorted(
            (one for one in answer if isinstance(one, Arrived)), key=lambda one: one.update.update_id
        )
        for one in arrived:
            number = one.update.update_id
            if number in self._waiting or number in self._working or number in self._taken:
                continue
            if one.lost:
                self._log("telegram.fields_unreadable", update_id=number, fields=list(one.lost))
            self._waiting[number] = Bit(one.update, self._clock.monotonic())
        if arrived:
            self._next = arrived[-1].update.update_id + 1

    def _hand_over(self, tasks: TaskGroup) -> float:
        gathered = gather(self._waiting.values(), self._clock.monotonic())
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

    async def _work(self, lane: Lane) -> None:
        queue = self._lanes[lane]
        while queue:
            updates = queue[0]
            async with self._seats:
                await self._take_surely(updates, lane if isinstance(lane, Address) else None)
            queue.popleft()
            self._finish(updates)
        del self._lanes[lane]

    async def _take_surely(self, updates: Sequence[Update], address: Address | None) -> None:
        """A store that is locked or full is waited for. What breaks us is passed over, or it would break us for ever."""
        pause_s = 1.0
        while True:
            try:
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
        self._progress.set()

    async def _rest(self, seconds: float) -> None:
        """Until something was taken, or it is time to look again."""
        if self._working and not self._waiting:
            self._progress = anyio.Event()
            async with anyio.create_task_group() as tasks:

                async def sleep() -> None:
                    await self._clock.sleep(seconds)
                    tasks.cancel_scope.cancel()

                tasks.start_soon(sleep)
                await self._progress.wait()
                tasks.cancel_scope.cancel()
        else:
            await self._clock.sleep(seconds)

    async def _suffer(self, trouble: Trouble) -> None:
        if isinstance(trouble, Conflict) and trouble.webhook:
            self._log("telegram.webhook_deleted", level="warning", why="we are set to poll")
            deleted = await self._client.delete_webhook()
            if not isinstance(deleted, Trouble):
                return
        await self._clock.sleep(self._setbacks.wait_s(trouble))
