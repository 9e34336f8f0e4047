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
    """Lanes of one run of the receiver; they end with its task group. `done` gets the key of each job.

    Every lane with a job works at once, so that a slow file holds up no other lane. Downloads, requests and writes have
    their own bounds."""

    def __init__(
        self, tasks: TaskGroup, clock: Clock, log: Callable[..., None], done: Callable[[str], None]
    ) -> None:
        self._tasks = tasks
        self._clock = clock
        self._log = log
        self._done = done
        self._lanes: dict[str, deque[tuple[str, Job, Broke]]] = {}

    def put(self, lane: str, key: str, job: Job, broke: Broke) -> None:
        """Queue a job. `done` gets its key at the end; `broke` gets the error first if it failed."""
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
        """Run a job, and retry it while the store or Discord is unavailable. Any other error goes to `broke`, without a retry."""
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
