"""How long to wait after a call that failed, and when to tell somebody.

A restart overlaps with the process before it, and networks blink: the first setbacks are quiet. What lasts is told
once, with what to do, and so is its end. It lasts until a call goes well, whichever kinds of trouble come meanwhile.

Whoever polls beside us is another matter: one of our polls ends theirs, so it goes well, and their next one ends ours.
So is whoever sets a webhook each time that we have deleted it. That is over only when we have polled undisturbed for a while.

Asks Telegram for updates, for ever, and confirms one only when it was taken for good, or is kept on the disk (law 1).

An offset confirms everything before it, so a poll begins when all that came is one or the other: a moment later. It hangs for
as long as it may. What waits for its pieces meanwhile goes on beside it (`Lanes.run`), for Telegram slows down whoever asks for
the same offset again within three seconds, and a second poll would end the first.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from pilothouse.channels.telegram.client import POLL_S, BotClient
from pilothouse.channels.telegram.trouble import Conflict, NotTelegram, RetryAfter, Trouble, Unauthorized
from pilothouse.channels.telegram.updates import Lanes
from pilothouse.channels.telegram.wire import Arrived
from pilothouse.core.clock import Clock
from pilothouse.core.text import span

FIRST_S = 1.0
LONGEST_S = 60.0
LOUD_AFTER = 4
"""Conflicts, and no calm between them: after about seven seconds it is no restart any more, and no webhook that was left."""
CALM_S = 90.0
"""Undisturbed for so long, we are alone. It is more than `LONGEST_S`: the other may wait as patiently as we do."""
DOWN_LOUD_S = 60.0

OTHER_POLLER = (
    "Another program receives messages with this bot's token, so Telegram gives them now to one and now to the "
    "other. Stop the other one, or give this Pilothouse a bot of its own."
)
OTHER_HOOK = (
    "Another program sets a webhook for this bot again and again, so Telegram gives the messages now to it and now to "
    "us. Stop it, or give this Pilothouse a bot of its own."
)
REFUSED = "Telegram refuses the bot token ({text}). Take the current one from @BotFather and put it {place}. Then start again."
DOWN = "Telegram could not be reached for {since} ({text}). Messages wait there, and are taken up when it is back."
PAUSED = "Telegram wants us to wait for {after} before it gives us messages again ({text}). They wait there meanwhile."


_CONTESTED = (OTHER_POLLER, OTHER_HOOK)

CONFIRM_S = 2.0
AGAIN_S = 1.0
"""While neither store nor disk takes an update, it is asked for again. Within half a second Telegram would give it alone,
and nothing of what came after it."""


class Setbacks:
    """Of one way to Telegram, from one success to the next. `place` is where a new token belongs."""

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
        self._contested_at = 0.0
        self._calm_at: float | None = None
        """When a call first went well after the last conflict."""
        self._told: set[str] = set()

    @property
    def lasts(self) -> bool:
        """Whether nothing has gone well since."""
        return self._count > 0

    @property
    def contested(self) -> str:
        """What was told of another program, for as long as it may still be there: also while calls go well."""
        return next((words for words in _CONTESTED if words in self._told), "")

    def wait_s(self, trouble: Trouble) -> float:
        """How long to wait now; the longer, the more came in a row."""
        now = self._clock.monotonic()
        if not self._count:
            self._since = now
        self._count += 1
        in_a_row = self._count
        if isinstance(trouble, Conflict):
            if not self._conflicts:
                self._contested_at = now
            self._conflicts, self._calm_at = self._conflicts + 1, None
            in_a_row = max(in_a_row, self._conflicts)
        self._log("telegram.poll_failed", kind=type(trouble).__name__, why=trouble.text, in_a_row=in_a_row)
        self._tell(trouble)
        if isinstance(trouble, RetryAfter):
            return trouble.after_s
        if isinstance(trouble, Unauthorized):
            return LONGEST_S
        return min(FIRST_S * 2 ** min(in_a_row - 1, 10), LONGEST_S)

    def over(self) -> None:
        """A call went well: that ends every trouble but another program, which only time shows to be gone."""
        now, since = self._clock.monotonic(), self._since
        if self._conflicts:
            self._calm_at = now if self._calm_at is None else self._calm_at
            if now - self._calm_at < CALM_S:
                self._count = 0
                self._told &= {*_CONTESTED}
                return
            since = self._contested_at
        if self._count or self._conflicts:
            self._log("telegram.poll_recovered", after_s=round(now - since, 1))
        self._count, self._conflicts = 0, 0
        self._told.clear()

    def _tell(self, trouble: Trouble) -> None:
        """What to do differs by what it is: each is told, and none of them twice."""
        words = self._words(trouble)
        if words and words not in self._told:
            self._told.add(words)
            since, after_s = span(self._clock.monotonic() - self._since), getattr(trouble, "after_s", 0.0)
            self._alarm(words.format(text=trouble.text, since=since, after=span(after_s), place=self._place))

    def _words(self, trouble: Trouble) -> str:
        """What to tell, if it is time to."""
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
