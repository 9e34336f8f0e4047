"""Queues what a platform delivered: in order within a place, side by side across places, each until it is taken for good.

An item that waits for the store or for the platform is retried, and delays its own place only. One that fails otherwise
is handed to `broke` and not retried, or it would fail for ever. Shared by every channel.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

from anyio.abc import TaskGroup
from msgspec import Struct

from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced, StoreUnavailable

RETRY_S = 30.0

Job = Callable[[], Awaitable[None]]
Broke = Callable[[Exception], Awaitable[None]]


class Item(Struct, frozen=True):
    """One delivery. `done` is called at the end, after `take` or `broke`; `names` identify the item in the log.

    An item that `overtakes` does not wait behind one that is only slow."""

    take: Job
    broke: Broke
    done: Job
    names: Mapping[str, object]
    overtakes: bool = False


class IntakeQueue:
    """The queue of one run of a receiver; its work ends with the task group. Every place with an item works at once.

    `noun` names an item in the log, with its channel: `telegram.update`. `passing` errors are retried like those of the
    store."""

    def __init__(
        self, noun: str, clock: Clock, log: Callable[..., None], *, passing: tuple[type[Exception], ...] = ()
    ) -> None:
        self._noun = noun
        self._clock = clock
        self._log = log
        self._passing: tuple[type[Exception], ...] = (StoreUnavailable, *passing)
        self._waiting: dict[object, deque[Item]] = {}
        self._slow: Counter[object] = Counter()

    def put(self, tasks: TaskGroup, place: object, item: Item) -> None:
        if item.overtakes and self._slow[place]:
            place = ("overtaking", place)
        if place in self._waiting:
            self._waiting[place].append(item)
        else:
            self._waiting[place] = deque([item])
            tasks.start_soon(self._work, place)

    @contextmanager
    def slow(self, tasks: TaskGroup, place: object) -> Iterator[None]:
        """Let items overtake meanwhile: the first one of the place waits for a file."""
        self._slow[place] += 1
        for item in [item for item in self._waiting.get(place, ()) if item.overtakes]:
            self._waiting[place].remove(item)
            self.put(tasks, place, item)
        try:
            yield
        finally:
            self._slow[place] -= 1
            if not self._slow[place]:
                del self._slow[place]

    async def _work(self, place: object) -> None:
        waiting = self._waiting[place]
        while waiting:
            item = waiting.popleft()
            await self._take_surely(item)
            await item.done()
        del self._waiting[place]

    async def _take_surely(self, item: Item) -> None:
        pause_s = 1.0
        while True:
            try:
                return await item.take()
            except self._passing as error:
                self._log(f"{self._noun}_waits", why=str(error), **item.names)
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_S)
            except Fenced:
                raise
            except Exception as error:  # noqa: BLE001 - one item must not cost all others
                return await item.broke(error)
