"""Polls Telegram for updates (`Poller`), and decides how long to wait after a failure and when to raise an alarm (`Backoff`).

An update is confirmed only when it was handled for good or is on the disk (law 1). An offset confirms everything
before it, so a poll starts when all earlier updates are safe: usually a moment later. Pieces wait beside the poll
(`UpdateQueues.run`), because Telegram delays a repeated offset by three seconds, and a second poll ends the first.

Another program that polls, or that sets a webhook, is a trouble of its own: our calls succeed in between, so it ends
only after `CALM_S` without a conflict. The first conflicts are quiet, because a restart overlaps with the old process.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.outage import LONGEST_S, LOUD_S, Outage, pause_s
from pilothouse.channels.telegram.client import POLL_S, BotClient
from pilothouse.channels.telegram.trouble import Conflict, NotTelegram, RetryAfter, Trouble, Unauthorized
from pilothouse.channels.telegram.updates import UpdateQueues
from pilothouse.channels.telegram.wire import Arrived
from pilothouse.core.clock import Clock
from pilothouse.core.text import span

LOUD_AFTER = 4
"""Conflicts before the alarm: after about seven seconds it is neither our restart nor an old webhook."""
CALM_S = 90.0
"""Time without a conflict after which no other program polls. Over `LONGEST_S`, the other's longest wait."""

OTHER_POLLER = (
    "Another program receives messages with this bot's token, so Telegram gives them now to one and now to the "
    "other. Stop the other program, or give this Pilothouse a bot of its own."
)
OTHER_HOOK = (
    "Another program sets a webhook for this bot again and again, so Telegram gives the messages now to it and now to "
    "us. Stop that program, or give this Pilothouse a bot of its own."
)
REFUSED = "Telegram refuses the bot token ({text}). Copy the current one from @BotFather and put it {place}. Then restart."
DOWN = "Telegram could not be reached for {since} ({text}). Messages wait there until it is back."
PAUSED = (
    "Telegram asks us to wait for {after} before it sends messages again ({text}). They wait there meanwhile."
)

CONFIRM_S = 2.0
AGAIN_S = 1.0
"""Pause before asking again for an update that neither store nor disk took. Within half a second Telegram would
return that update alone."""


class Backoff:
    """Decides the pause after each failure, and when to report it. `place` says where a new token belongs."""

    def __init__(
        self, clock: Clock, log: Callable[..., None], alarm: Callable[[str], None], *, place: str
    ) -> None:
        self._clock = clock
        self._log = log
        self._place = place
        self._down = Outage(clock, alarm)
        self._conflicts = Outage(clock, alarm)
        self._calm_at: float | None = None
        """The first success after the last conflict."""

    @property
    def is_failing(self) -> bool:
        """No call has succeeded since the last failure."""
        return self._down.in_a_row > 0

    @property
    def rival(self) -> str:
        """The alarm about another program, for as long as it may still run."""
        return self._conflicts.trouble

    def wait_s(self, trouble: Trouble) -> float:
        """Record a failure; return how long to wait."""
        in_a_row = self._down.fail()
        if isinstance(trouble, Conflict):
            in_a_row = max(in_a_row, self._conflicts.fail())
            self._calm_at = None
        self._log("telegram.poll_failed", kind=type(trouble).__name__, why=trouble.text, in_a_row=in_a_row)
        self._tell(trouble)
        if isinstance(trouble, RetryAfter):
            return trouble.after_s
        return LONGEST_S if isinstance(trouble, Unauthorized) else pause_s(in_a_row)

    def succeeded(self) -> None:
        """Record a success. It ends every trouble but another program, which needs `CALM_S` without a conflict."""
        after_s = self._down.end()
        if self._conflicts.in_a_row:
            now = self._clock.monotonic()
            self._calm_at = now if self._calm_at is None else self._calm_at
            if now - self._calm_at < CALM_S:
                return
            after_s = self._conflicts.end()
        if after_s is not None:
            self._log("telegram.poll_recovered", after_s=round(after_s, 1))

    def _tell(self, trouble: Trouble) -> None:
        """Report the failure, unless it is too early."""
        text, down_s = trouble.text, self._down.lasted_s
        match trouble:
            case Unauthorized():
                self._down.tell(REFUSED, REFUSED.format(text=text, place=self._place))
            case Conflict(webhook=webhook) if self._conflicts.in_a_row >= LOUD_AFTER:
                words = OTHER_HOOK if webhook else OTHER_POLLER
                self._conflicts.tell(words, words)
            case RetryAfter(after_s=after_s):
                if down_s + after_s >= LOUD_S:
                    self._down.tell(PAUSED, PAUSED.format(text=text, after=span(after_s)))
            case _ if down_s >= LOUD_S:
                self._down.tell(DOWN, DOWN.format(text=text, since=span(down_s)))
            case _:
                pass


class Poller:
    """Polls for ever. `backoff` may outlive a poller: a trouble does not end with it."""

    def __init__(
        self,
        client: BotClient,
        queues: UpdateQueues,
        clock: Clock,
        log: Callable[..., None],
        backoff: Backoff,
    ) -> None:
        self._client = client
        self._queues = queues
        self._clock = clock
        self._log = log
        self._backoff = backoff
        self._next = 0
        self._asked = 0
        """The offset of the last poll: everything before it is confirmed."""
        self.due_at = clock.monotonic()
        """When the last round began or the next is to begin; a poller that is long overdue is stuck."""
        self.succeeded_at: float | None = None
        """Monotonic time of the last successful poll."""

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                await self._queues.restore()
                tasks.start_soon(self._queues.run, tasks)
                while True:
                    await self._round(tasks)
        finally:
            with anyio.move_on_after(CONFIRM_S, shield=True):
                if self._offset != self._asked:
                    await self._client.get_updates(self._offset, timeout_s=0, limit=1)

    async def _round(self, tasks: TaskGroup) -> None:
        self.due_at = self._clock.monotonic()
        await self._queues.wait_until_safe(AGAIN_S)
        self._asked = self._offset
        answer = await self._client.get_updates(self._asked, timeout_s=POLL_S if self._is_well else 0)
        if isinstance(answer, Trouble):
            await self._back_off(answer)
            return
        numbers = [one.update.update_id for one in answer if isinstance(one, Arrived)]
        if answer and not numbers:
            await self._back_off(NotTelegram("the answer holds no updates"))
            return
        self.succeeded_at = self._clock.monotonic()
        self._backoff.succeeded()
        self._queues.add(answer)
        self._queues.start_ready(tasks)  # without waiting for the journal
        self._next = max(numbers, default=self._next - 1) + 1

    @property
    def _is_well(self) -> bool:
        """The next poll may hang. After a failure an immediate answer shows whether polling works again."""
        return self.succeeded_at is not None and not self._backoff.is_failing

    @property
    def _offset(self) -> int:
        return self._queues.oldest(self._next)

    async def _back_off(self, trouble: Trouble) -> None:
        self._asked = 0  # the poll may not have arrived
        if isinstance(trouble, Conflict) and trouble.webhook:
            deleted = await self._client.delete_webhook()
            if isinstance(deleted, Trouble):
                trouble = deleted
            else:
                self._log("telegram.webhook_deleted", level="warning", why="we are set to poll")
        wait_s = self._backoff.wait_s(trouble)
        self.due_at = self._clock.monotonic() + wait_s
        await self._clock.sleep(wait_s)
