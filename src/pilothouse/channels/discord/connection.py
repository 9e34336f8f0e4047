"""Keeps us connected to Discord's gateway.

A refused token, a missing intent, a network that is down and sessions that do not hold are waited out and reported once.
Errors that only a restart can mend are reported and not retried: each try is one of the sessions that a bot may begin in
a day. We count as connected after READY: a gateway may answer heartbeats and send nothing else for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import aiohttp
import anyio
import discord
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.discord.client import HIDDEN, Client, Hear, SessionLost, Start, logging_to, point_at
from pilothouse.channels.discord.config import VARIABLE, DiscordConfig
from pilothouse.channels.discord.pace import Pace
from pilothouse.channels.discord.rest import Calls, tracing
from pilothouse.channels.discord.wire import Event
from pilothouse.channels.skeleton import LONGEST_S, LOUD_S, Outage, pause_s
from pilothouse.core.channel import ChannelHealth
from pilothouse.core.clock import Clock
from pilothouse.core.secret import token_place
from pilothouse.http.unreachable import why_unreachable

SESSION_S = 150.0
"""The longest pause where each try begins a session: after 1000 sessions in a day Discord resets the token."""
SETTLED_S = 120.0
"""A session must hold this long before earlier short ones are forgiven."""
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
    """Decides the pause after each setback, and when to report it. `place` is where a new token belongs."""

    def __init__(
        self, clock: Clock, log: Callable[..., None], alarm: Callable[[str], None], *, place: str
    ) -> None:
        self._log = log
        self._place = place
        self._outage = Outage(clock, alarm)
        self._short = False

    @property
    def trouble(self) -> str:
        """The last alarm, while its trouble lasts."""
        return self._outage.trouble

    def wait_s(self, setback: Setback, *, at_once: bool = False) -> float:
        """Return how long to wait: longer after each setback in a row. With `at_once` the first retry does not wait."""
        in_a_row = self._outage.fail()
        self.note(setback)
        self._log("discord.not_connected", kind=setback.kind, why=setback.text, in_a_row=in_a_row)
        if at_once and in_a_row == 1:
            return 0.0
        if setback.kind == "intent":
            return SESSION_S
        if setback.kind == "token":
            return LONGEST_S
        return pause_s(in_a_row, SESSION_S if setback.began else LONGEST_S)

    def note(self, setback: Setback, since: float | None = None) -> None:
        """Report a setback once it is time to. `since` is when it began, if not now."""
        kind, outage = setback.kind, self._outage
        self._short = self._short or kind == "short"
        outage.begin(since)
        if self._is_loud(kind):
            text, app, seconds = setback.text, setback.app or "…", outage.lasted_s
            words = _WORDS[kind].format(seconds=seconds, text=text, app=app, place=self._place)
            # Short sessions and a network that is down count as the same trouble.
            outage.tell("down" if kind == "short" else kind, words)

    def ready(self) -> None:
        """Note an accepted session. It ends the trouble, unless recent sessions did not hold."""
        if self._short:
            self._outage.begin_anew()
        else:
            self.over()

    def over(self) -> None:
        self._short = False
        after_s = self._outage.end()
        if after_s is not None:
            self._log("discord.recovered", after_s=round(after_s, 1))

    def _is_loud(self, kind: Kind) -> bool:
        if kind == "short":
            return self._outage.in_a_row >= LOUD_AFTER
        return kind != "down" or self._outage.lasted_s >= LOUD_S


STUCK_S = 180.0
"""After this long without a frame, the connection is made anew."""
LOOK_EVERY_S = 5.0
REFUSED_TOKEN, MISSING_INTENT = 4004, 4014


class Me(Struct, frozen=True):
    id: str
    name: str
    application_id: str


class Stuck(Exception):
    """Raised when Discord was silent for too long."""


_FORESEEN = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, SessionLost, Stuck)


class Connection:
    """`opened` gets the calls of each session after login, `hear` its events, `closed` its end."""

    def __init__(
        self,
        config: DiscordConfig,
        clock: Clock,
        log: Callable[..., None],
        *,
        alarm: Callable[[str], None],
        hear: Hear,
        opened: Callable[[Me, Calls], None],
        closed: Callable[[], None],
        start: Start,
    ) -> None:
        self._config = config
        self._start = start
        self._clock = clock
        self._log = log
        self._hear = hear
        self._opened = opened
        self._closed = closed
        self._setbacks = Setbacks(clock, log, alarm, place=token_place(config.token, VARIABLE))
        self._heard_at: float | None = None
        self._ready_at: float | None = None
        """When the gateway accepted the session."""
        self.pace = Pace(clock)

    async def run(self) -> None:
        point_at(self._config)
        with logging_to(self._log, self._hide):
            while True:
                setback = await self._stay()
                if setback.kind == "final":
                    self._setbacks.note(setback)
                    self._log("discord.stopped", level="error", why=setback.text)
                    await anyio.sleep_forever()  # what waits to be said waits in the store
                await self._clock.sleep(self._setbacks.wait_s(setback, at_once=setback.began))

    def health(self) -> ChannelHealth:
        heard, clock = self._heard_at, self._clock
        heard_at = None if heard is None else clock.now() - (clock.monotonic() - heard)
        return ChannelHealth(heard_at, self._setbacks.trouble)

    async def _stay(self) -> Setback:
        """Stay connected for one session; return why it ended."""
        setback = Setback("down", "the connection was closed")
        self._ready_at = None
        try:
            async with anyio.create_task_group() as tasks:
                client = Client(
                    self._config,
                    hear=self._receive,
                    trace=tracing(self.pace),
                    logged_in=lambda client: self._introduce(client, tasks),
                )
                try:
                    tasks.start_soon(self._watch, client)
                    setback = await self._session(client)
                finally:
                    self._closed()
                    await client.leave()
                tasks.cancel_scope.cancel()
        except* Stuck as group:
            setback = Setback("down", str(group.exceptions[0]), began=True)
        return setback

    async def _session(self, client: Client) -> Setback:
        try:
            await self._start(client, self._config.token.reveal())
            error: Exception = SessionLost(client.lost or "the connection was closed")
        except Exception as broken:  # noqa: BLE001 - connecting again without a pause would cost the token
            error = SessionLost(client.lost) if client.lost else broken
        held = self._settle(client)
        setback = self._setback(error, str(client.application_id or ""), began=client.began)
        is_short = setback.kind == "down" and client.sockets > 0 and not held
        return replace(setback, kind="short") if is_short else setback

    def _settle(self, client: Client) -> bool:
        """Has the session held for long enough to count as well? Then earlier trouble is over."""
        held = self._ready_at is not None and self._clock.monotonic() - self._ready_at >= SETTLED_S
        if held:
            client.sockets = 1
            self._setbacks.over()
        return held

    def _introduce(self, client: discord.Client, tasks: TaskGroup) -> None:
        user = client.user
        if user is None:
            raise discord.GatewayNotFound
        me = Me(str(user.id), user.name, str(client.application_id or user.id))
        self._opened(me, Calls(client.http, me.application_id, self._hide, tasks, self._clock))

    async def _watch(self, client: Client) -> None:
        """Report a gateway that says nothing, and then give up on it."""
        heard_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            now, ago = self._clock.monotonic(), client.heard_s_ago()
            if ago is not None:
                heard_at = max(heard_at, now - ago)
                self._heard_at = max(self._heard_at or 0.0, heard_at)
                self._settle(client)
            if now - heard_at > LOUD_S:
                self._setbacks.note(Setback("down", "nothing comes from its gateway"), heard_at)
            if now - heard_at > STUCK_S:
                raise Stuck("its gateway said nothing")

    def _receive(self, event: Event) -> None:
        self._heard_at = self._clock.monotonic()
        if event.name in ("READY", "RESUMED"):
            self._ready_at = self._heard_at
            self._setbacks.ready()
        try:
            self._hear(event)
        except Exception as error:  # noqa: BLE001 - one event must not cost the connection
            self._log("discord.event_failed", level="error", key=event.name, error=error)

    def _setback(self, error: Exception, app: str, *, began: bool) -> Setback:
        text = self._hide(why_unreachable(error))[:200]
        match error:
            case discord.LoginFailure():
                return Setback("token", text)
            case discord.ConnectionClosed(code=code) if code == MISSING_INTENT:
                return Setback("intent", f"close code {code}", app)
            case discord.ConnectionClosed(code=code) if code == REFUSED_TOKEN:
                return Setback("token", f"close code {code}")
            case discord.ConnectionClosed(code=code) if code in FINAL:
                return Setback("final", FINAL[code])
            case _ if isinstance(error, _FORESEEN):
                return Setback("down", text, began=began)
            case _:
                self._log("discord.connection_broke", level="error", error=error)
                return Setback("down", f"{type(error).__name__}: {text}", began=began)

    def _hide(self, text: str) -> str:
        token = self._config.token.reveal()
        return text.replace(token, HIDDEN) if token else text
