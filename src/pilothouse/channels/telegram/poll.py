"""Asks Telegram for updates, for ever, and confirms one only when it was taken for good, or is kept on the disk (law 1).

An offset confirms everything before it, so a poll begins when all that came is one or the other: a moment later. It hangs for
as long as it may. What waits for its pieces meanwhile goes on beside it (`Lanes.run`), for Telegram slows down whoever asks for
the same offset again within three seconds, and a second poll would end the first.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.telegram.client import POLL_S, BotClient
from pilothouse.channels.telegram.lanes import Lanes
from pilothouse.channels.telegram.setbacks import Setbacks
from pilothouse.channels.telegram.trouble import Conflict, NotTelegram, Trouble
from pilothouse.channels.telegram.wire import Arrived
from pilothouse.core.clock import Clock

CONFIRM_S = 2.0
AGAIN_S = 1.0
"""While neither store nor disk takes an update, it is asked for again. Within half a second Telegram would give it alone,
and nothing of what came after it."""


class Poller:
    """`setbacks` may be older than this poller, and outlive it: a trouble does not end with a poller."""

    def __init__(
        self,
        client: BotClient,
        lanes: Lanes,
        clock: Clock,
        log: Callable[..., None],
        setbacks: Setbacks,
    ) -> None:
        self._client = client
        self._lanes = lanes
        self._clock = clock
        self._log = log
        self._setbacks = setbacks
        self._next = 0
        self._asked = 0
        """What Telegram was last asked for, and so what is confirmed."""
        self.due_at = clock.monotonic()
        """When the last round began, or the next one is to begin: a poller that does not even try is stuck."""
        self.succeeded_at: float | None = None
        """When a poll last went well, by the clock that never jumps: its age is the channel's health."""

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                await self._lanes.take_up()
                tasks.start_soon(self._lanes.run, tasks)
                while True:
                    await self._round(tasks)
        finally:
            with anyio.move_on_after(CONFIRM_S, shield=True):
                if self._offset != self._asked:
                    await self._client.get_updates(self._offset, timeout_s=0, limit=1)

    async def _round(self, tasks: TaskGroup) -> None:
        self.due_at = self._clock.monotonic()
        await self._lanes.settle(AGAIN_S)
        self._asked = self._offset
        answer = await self._client.get_updates(self._asked, timeout_s=POLL_S if self._is_well else 0)
        if isinstance(answer, Trouble):
            await self._suffer(answer)
            return
        numbers = [one.update.update_id for one in answer if isinstance(one, Arrived)]
        if answer and not numbers:
            await self._suffer(NotTelegram("what came are no updates"))
            return
        self.succeeded_at = self._clock.monotonic()
        self._setbacks.over()
        self._lanes.see(answer)
        self._lanes.hand_over(tasks)  # at once, whatever is being written down
        self._next = max(numbers, default=self._next - 1) + 1

    @property
    def _is_well(self) -> bool:
        """Else an answer is wanted at once: that it works must not be learned only when somebody says something."""
        return self.succeeded_at is not None and not self._setbacks.lasts

    @property
    def _offset(self) -> int:
        return self._lanes.oldest(self._next)

    async def _suffer(self, trouble: Trouble) -> None:
        self._asked = 0  # whether it arrived, nobody knows
        if isinstance(trouble, Conflict) and trouble.webhook:
            deleted = await self._client.delete_webhook()
            if isinstance(deleted, Trouble):
                trouble = deleted
            else:
                self._log("telegram.webhook_deleted", level="warning", why="we are set to poll")
        pause_s = self._setbacks.wait_s(trouble)
        self.due_at = self._clock.monotonic() + pause_s
        await self._clock.sleep(pause_s)
