"""How long to wait after a connection that failed, and when to tell somebody.

Networks blink, so the first setbacks are quiet. What lasts is told once, with what to do; so is its end, in the log. It
lasts until a connection is ready, whichever kinds of trouble come meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from pilothouse.core.clock import Clock

FIRST_S = 1.0
LONGEST_S = 60.0
SESSION_S = 150.0
"""Where each try is a session that begins: whoever begins a thousand in a day is given a new token by Discord."""
SETTLED_S = 120.0
"""Whoever was cut short must hold for so long to be well: else a line that breaks for ever would be well each time."""
LOUD_AFTER_S = 60.0
LOUD_AFTER = 6
"""Sessions in a row that were cut short."""

Kind = Literal["token", "intent", "short", "down", "final"]

PORTAL = "https://discord.com/developers/applications"
_WORDS: dict[Kind, str] = {
    "token": f"Discord refuses the bot token. Take a new one at {PORTAL}, your application, page Bot, “Reset Token”, "
    "and put it {place}. Then start again.",
    "intent": "Discord does not let this bot read messages: its Message Content Intent is switched off. Switch it on at "
    f"{PORTAL}/{{app}}/bot under “Privileged Gateway Intents” and save; it is tried again by itself. Or set "
    "message_content = false: then only mentions and private messages are heard.",
    "final": "Discord does not let us connect, and waiting does not help: {text}. It is not tried again before a restart.",
    "short": "Discord ends our connection again and again ({text}). It is tried ever less often, and what is said meanwhile is "
    "read when it is back.",
    "down": "Discord could not be reached for {seconds:.0f} s ({text}). What is said meanwhile is read when it is back.",
}


FINAL = {
    4010: "it takes our connection for a part of a divided one (close code 4010): update Pilothouse",
    4011: "the bot is in more servers than one connection may serve (close code 4011), and Pilothouse has one: take it out of "
    "some of them",
    4012: "this Pilothouse speaks a version of Discord's gateway that is no longer served (close code 4012): update it",
    4013: "it does not know what this Pilothouse wants to hear of (close code 4013): update it",
}
"""Close codes after which Discord wants nobody to come again, https://docs.discord.com/developers/topics/opcodes-and-status-codes,
but for the token's and the intent's: those are put right on Discord's pages, so it is worth while to look again."""


class Setback(Struct, frozen=True):
    """`short`: a connection stood, and did not hold. `began`: it cost a session."""

    kind: Kind
    text: str = ""
    app: str = ""
    began: bool = False


class Setbacks:
    """`trouble` is what a person should know, while it lasts. `place` is where a new token belongs."""

    def __init__(
        self, clock: Clock, log: Callable[..., None], alarm: Callable[[str], None], *, place: str
    ) -> None:
        self._clock = clock
        self._log = log
        self._alarm = alarm
        self._place = place
        self._count = 0
        self._since: float | None = None
        self._told: set[Kind] = set()
        self._short = False
        self.trouble = ""

    def wait_s(self, setback: Setback, *, at_once: bool = False) -> float:
        """How long to wait now; the longer, the more came in a row. The first may be tried again at once."""
        self._count += 1
        self.note(setback)
        self._log("discord.not_connected", kind=setback.kind, why=setback.text, in_a_row=self._count)
        if at_once and self._count == 1:
            return 0.0
        if setback.kind == "intent":
            return SESSION_S
        if setback.kind == "token":
            return LONGEST_S
        longest_s = SESSION_S if setback.began else LONGEST_S
        return min(FIRST_S * 2 ** min(self._count - 1, 10), longest_s)

    def note(self, setback: Setback, since: float | None = None) -> None:
        """Tells somebody, once it is time to. `since` is when it began, if not now."""
        now = self._clock.monotonic()
        self._short = self._short or setback.kind == "short"
        if self._since is None:
            self._since = now if since is None else since
        down_s = now - self._since
        if not self._told & _as_one(setback.kind) and self._is_loud(setback.kind, down_s):
            self._told.add(setback.kind)
            words = _WORDS[setback.kind]
            self.trouble = words.format(
                seconds=down_s, text=setback.text, app=setback.app or "…", place=self._place
            )
            self._alarm(self.trouble)

    def ready(self) -> None:
        """A session stands. That is well, unless others of late did not hold."""
        if self._short:
            self._since = self._clock.monotonic()
        else:
            self.over()

    def over(self) -> None:
        if self._since is not None:
            self._log("discord.recovered", after_s=round(self._clock.monotonic() - self._since, 1))
        self._since, self._count, self._short, self.trouble = None, 0, False, ""
        self._told.clear()

    def _is_loud(self, kind: Kind, down_s: float) -> bool:
        if kind == "short":
            return self._count >= LOUD_AFTER
        return kind != "down" or down_s >= LOUD_AFTER_S


def _as_one(kind: Kind) -> set[Kind]:
    """A line that breaks and a network that is down are the same trouble, by turns."""
    return {"short", "down"} if kind in ("short", "down") else {kind}
