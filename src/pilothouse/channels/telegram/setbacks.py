"""How long to wait after a call that failed, and when to tell somebody.

A restart overlaps with the process before it, and networks blink: the first setbacks are quiet. What lasts is told
once, with what to do, and so is its end. It lasts until a call goes well, whichever kinds of trouble come meanwhile.

Whoever polls beside us is another matter: one of our polls ends theirs, so it goes well, and their next one ends ours.
So is whoever sets a webhook each time that we have deleted it. That is over only when we have polled undisturbed for a while.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.channels.telegram.trouble import Conflict, RetryAfter, Trouble, Unauthorized
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
