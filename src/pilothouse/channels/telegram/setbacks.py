"""How long to wait after a poll that failed, and when to tell somebody.

A restart overlaps with the process before it, and networks blink: the first setbacks are quiet. What lasts is told
once, with what to do, and so is its end.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.channels.telegram.trouble import Conflict, RetryAfter, Trouble, Unauthorized
from pilothouse.core.clock import Clock

FIRST_S = 1.0
LONGEST_S = 60.0
LOUD_AFTER = 4
"""Conflicts in a row: after about seven seconds it is no restart any more."""
DOWN_LOUD_S = 60.0

OTHER_POLLER = (
    "Another program receives messages with this bot's token, so Telegram gives them now to one and now to the "
    "other. Stop the other one, or give this Pilothouse a bot of its own."
)
REFUSED = "Telegram refuses the bot token ({text}). Take the current one from @BotFather and put it into .env as TELEGRAM_TOKEN."
DOWN = "Telegram could not be reached for {seconds:.0f} s ({text}). Messages wait there, and are taken up when it is back."


class Setbacks:
    def __init__(self, clock: Clock, log: Callable[..., None], alarm: Callable[[str], None]) -> None:
        self._clock = clock
        self._log = log
        self._alarm = alarm
        self._kind: type[Trouble] | None = None
        self._count = 0
        self._since = 0.0
        self._loud = False

    def wait_s(self, trouble: Trouble) -> float:
        """How long to wait now; the longer, the more of a kind came in a row."""
        if self._kind is not type(trouble):
            self._kind, self._count, self._loud = type(trouble), 0, False
            self._since = self._clock.monotonic()
        self._count += 1
        self._log("telegram.poll_failed", kind=type(trouble).__name__, why=trouble.text, in_a_row=self._count)
        if not self._loud and (words := self._words(trouble)):
            self._loud = True
            self._alarm(words)
        if isinstance(trouble, RetryAfter):
            return trouble.after_s
        if isinstance(trouble, Unauthorized):
            return LONGEST_S
        return min(FIRST_S * 2 ** min(self._count - 1, 10), LONGEST_S)

    def over(self) -> None:
        if self._kind is not None:
            self._log("telegram.poll_recovered", after_s=round(self._clock.monotonic() - self._since, 1))
        self._kind, self._count, self._loud = None, 0, False

    def _words(self, trouble: Trouble) -> str:
        """What to tell, if it is time to."""
        down_s = self._clock.monotonic() - self._since
        match trouble:
            case Unauthorized(text=text):
                return REFUSED.format(text=text)
            case Conflict():
                return OTHER_POLLER if self._count >= LOUD_AFTER else ""
            case RetryAfter():
                return ""
            case _:
                return DOWN.format(seconds=down_s, text=trouble.text) if down_s >= DOWN_LOUD_S else ""
