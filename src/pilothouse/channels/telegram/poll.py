"""Polls Telegram for updates (`Poller`), and decides how long to wait after a failure and when to raise an alarm (`Backoff`).

An update is confirmed only when it was handled for good or is on the disk (law 1). An offset confirms everything
before it, so a poll starts when all earlier updates are safe: usually a moment later. Pieces wait beside the poll
(`UpdateQueues.run`), because Telegram delays a repeated offset by three seconds, and a second poll ends the first.

The first failures are quiet: a restart overlaps with the old process, and networks blink. A lasting one raises one
alarm of each kind until a call succeeds. Another program that polls, or that sets a webhook, is different: our calls
succeed in between, so that trouble ends only after `CALM_S` without a conflict.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.telegram.client import POLL_S, BotClient
from pilothouse.channels.telegram.trouble import Conflict, NotTelegram, RetryAfter, Trouble, Unauthorized
from pilothouse.channels.telegram.updates import UpdateQueues
from pilothouse.channels.telegram.wire import Arrived
from pilothouse.core.clock import Clock
from pilothouse.core.text import span

FIRST_S = 1.0
LONGEST_S = 60.0
LOUD_AFTER = 4
"""Conflicts before the alarm: after about seven seconds it is neither our restart nor an old webhook."""
CALM_S = 90.0
"""Time without a conflict after which no other program polls. Over `LONGEST_S`, the other's longest wait."""
DOWN_LOUD_S = 60.0

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

_RIVAL_TEXTS = (OTHER_POLLER, OTHER_HOOK)

CONFIRM_S = 2.0
AGAIN_S = 1.0
"""Pause before asking again for an update that neither store nor disk took. Within half a second Telegram would
return that update alone."""


class Backoff:
    """Counts failures from one success to the next. `place` says where a new token belongs."""

    def __init__(
        self, clock: Clock, log: Callable[..., None], alarm: Callable[[str], None], *, place: str
    ) -> None:
        self._clock = clock
        self._log = log
        self._alarm = alarm
        self._place = place
        self._count = 0
        self._since = 0.0
        self._conflicts = 0
        self._rival_at = 0.0
        self._calm_at: float | None = None
        """The first success after the last conflict."""
        self._told: set[str] = set()

    @property
    def is_failing(self) -> bool:
        """No call has succeeded since the last failure."""
        return self._count > 0

    @property
    def rival(self) -> str:
        """The alarm about another program, for as long as it may still run."""
        return next((words for words in _RIVAL_TEXTS if words in self._told), "")

    def wait_s(self, trouble: Trouble) -> float:
        """Record a failure; return how long to wait."""
        now = self._clock.monotonic()
        if not self._count:
            self._since = now
        self._count += 1
        in_a_row = self._count
        if isinstance(trouble, Conflict):
            if not self._conflicts:
                self._rival_at = now
            self._conflicts, self._calm_at = self._conflicts + 1, None
            in_a_row = max(in_a_row, self._conflicts)
        self._log("telegram.poll_failed", kind=type(trouble).__name__, why=trouble.text, in_a_row=in_a_row)
        self._tell(trouble)
        if isinstance(trouble, RetryAfter):
            return trouble.after_s
        if isinstance(trouble, Unauthorized):
            return LONGEST_S
        return min(FIRST_S * 2 ** min(in_a_row - 1, 10), LONGEST_S)

    def succeeded(self) -> None:
        """Record a success. It ends every trouble but another program, which needs `CALM_S` without a conflict."""
        now, since = self._clock.monotonic(), self._since
        if self._conflicts:
            self._calm_at = now if self._calm_at is None else self._calm_at
            if now - self._calm_at < CALM_S:
                self._count = 0
                self._told &= {*_RIVAL_TEXTS}
                return
            since = self._rival_at
        if self._count or self._conflicts:
            self._log("telegram.poll_recovered", after_s=round(now - since, 1))
        self._count, self._conflicts = 0, 0
        self._told.clear()

    def _tell(self, trouble: Trouble) -> None:
        """Raise each kind of alarm once."""
        words = self._words(trouble)
        if words and words not in self._told:
            self._told.add(words)
            since, after_s = span(self._clock.monotonic() - self._since), getattr(trouble, "after_s", 0.0)
            self._alarm(words.format(text=trouble.text, since=since, after=span(after_s), place=self._place))

    def _words(self, trouble: Trouble) -> str:
        """Return the alarm's text, or an empty string if it is too early."""
        down_s = self._clock.monotonic() - self._since
        match trouble:
            case Unauthorized():
                return REFUSED
            case Conflict(webhook=webhook) if self._conflicts >= LOUD_AFTER:
                return OTHER_HOOK if webhook else OTHER_POLLER
            case RetryAfter(after_s=after_s) if down_s + after_s >= DOWN_LOUD_S:
                return PAUSED
            case RetryAfter():
                return ""
            case _:
                return DOWN if down_s >= DOWN_LOUD_S else ""


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
        pause_s = self._backoff.wait_s(trouble)
        self.due_at = self._clock.monotonic() + pause_s
        await self._clock.sleep(pause_s)
