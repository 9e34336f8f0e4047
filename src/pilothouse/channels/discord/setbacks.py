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
INTENT_S = 150.0
"""Each try is a session that begins. Whoever begins a thousand in a day is given a new token by Discord."""
LOUD_AFTER_S = 60.0

Kind = Literal["token", "intent", "down", "final"]

PORTAL = "https://discord.com/developers/applications"
_WORDS: dict[Kind, str] = {
    "token": f"Discord refuses the bot token. Take a new one at {PORTAL}, your application, page Bot, “Reset Token”, "
    "and put it into .env as DISCORD_TOKEN.",
    "intent": "Discord does not let this bot read messages: its Message Content Intent is switched off. Switch it on at "
    f"{PORTAL}/{{app}}/bot under “Privileged Gateway Intents” and save; it is tried again by itself. Or set "
    "message_content = false: then only mentions and private messages are heard.",
    "final": "Discord does not let us connect, and waiting does not help: {text}. It is not tried again before a restart.",
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
    kind: Kind
    text: str = ""
    app: str = ""


class Setbacks:
    def __init__(self, clock: Clock, log: Callable[..., None], alarm: Callable[[str], None]) -> None:
        self._clock = clock
        self._log = log
        self._alarm = alarm
        self._count = 0
        self._since: float | None = None
        self._told: set[Kind] = set()

    def wait_s(self, setback: Setback) -> float:
        """How long to wait now; the longer, the more came in a row."""
        self.note(setback)
        self._count += 1
        self._log("discord.not_connected", kind=setback.kind, why=setback.text, in_a_row=self._count)
        if setback.kind == "intent":
            return INTENT_S
        if setback.kind == "token":
            return LONGEST_S
        return min(FIRST_S * 2 ** min(self._count - 1, 10), LONGEST_S)

    def note(self, setback: Setback, since: float | None = None) -> None:
        """Tells somebody, once it is time to. `since` is when it began, if not now."""
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now if since is None else since
        down_s = now - self._since
        if setback.kind not in self._told and (setback.kind != "down" or down_s >= LOUD_AFTER_S):
            self._told.add(setback.kind)
            words = _WORDS[setback.kind]
            self._alarm(words.format(seconds=down_s, text=setback.text, app=setback.app or "…"))

    def over(self) -> None:
        if self._since is not None:
            self._log("discord.recovered", after_s=round(self._clock.monotonic() - self._since, 1))
        self._since, self._count = None, 0
        self._told.clear()
