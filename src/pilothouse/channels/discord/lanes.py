"""Takes events: in order within a channel, side by side across channels, each until it is taken for good."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup

from pilothouse.channels.discord.trouble import Away
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced, StoreUnavailable

RETRY_S = 30.0

Job = Callable[[], Awaitable[None]]
Broke = Callable[[Exception], Awaitable[None]]


class Lanes:
    """For one run of whoever receives: what it works on ends with that run's task group. `done` is told of each key.

    As many are at work as have something to do: a file that hangs in one holds up no other. What must not be too many at
    a time, as files, requests and writes, has its bound where it happens."""

    def __init__(
        self, tasks: TaskGroup, clock: Clock, log: Callable[..., None], done: Callable[[str], None]
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._done = done
        self._lanes: dict[str, deque[tuple[str, Job, Broke]]] = {}

    def put(self, lane: str, key: str, job: Job, broke: Broke) -> None:
        """`key` names it to whoever is told that it is done; `broke` is told before that why it could not be."""
        if lane in self._lanes:
            self._lanes[lane].append((key, job, broke))
        else:
            self._lanes[lane] = deque([(key, job, broke)])
            self._tasks.start_soon(self._work, lane)

    async def _work(self, lane: str) -> None:
        queue = self._lanes[lane]
        while queue:
            key, job, broke = queue[0]
            await self._take_surely(key, job, broke)
            queue.popleft()
            self._done(key)
        del self._lanes[lane]

    async def _take_surely(self, key: str, job: Job, broke: Broke) -> None:
        """A store that is locked or full is waited for, and so is Discord. What breaks us is given to `broke`, and not
        tried again, or it would break us for ever."""
        pause_s = 1.0
        while True:
            try:
                return await job()
            except (StoreUnavailable, Away) as error:
                self._log("discord.event_waits", key=key, why=str(error))
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_S)
            except Fenced:
                raise
            except Exception as error:  # noqa: BLE001 - one event must not cost all others
                return await broke(error)
