"""Stays connected: a token that is refused, an intent that is missing, a network that is down and sessions that do not
hold are waited out, and told once. What only a restart can mend is told, and left alone: each try would be one of the
sessions that a bot may begin in a day.

Connected is whoever was told READY: a gateway may greet us, and answer each heartbeat, and tell us nothing for ever.
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
import anyio
import discord
from msgspec import Struct

from pilothouse.channels.advice import place_of, why_unreachable
from pilothouse.channels.discord.buckets import Buckets
from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.client import HIDDEN, Client, Hear, Start, logging_to, point_at
from pilothouse.channels.discord.config import VARIABLE, DiscordConfig
from pilothouse.channels.discord.setbacks import FINAL, LOUD_AFTER_S, SETTLED_S, Setback, Setbacks
from pilothouse.channels.discord.wire import Event
from pilothouse.core.channel import ChannelHealth
from pilothouse.core.clock import Clock

STUCK_S = 180.0
"""Without a sign of life for this long, the connection is made anew."""
LOOK_EVERY_S = 5.0
REFUSED_TOKEN = 4004


class Me(Struct, frozen=True):
    id: str
    name: str
    application_id: str


class Stuck(Exception):
    """Nothing was heard for too long."""


_FORESEEN = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, Stuck)


class Connection:
    """`run` keeps it; there are calls while we are logged in, also when the gateway is away for a moment."""

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
        self._setbacks = Setbacks(clock, log, alarm, place=place_of(config.token, VARIABLE))
        self._heard_at: float | None = None
        self._ready_at: float | None = None
        """When the session that stands began to."""
        self.buckets = Buckets(clock)

    async def run(self) -> None:
        point_at(self._config)
        with logging_to(self._log, self._hide):
            while True:
                setback = await self._stay()
                if setback.kind == "final":
                    self._setbacks.note(setback)
                    self._log("discord.stopped", level="error", why=setback.text)
                    await anyio.sleep_forever()  # what waits to be said waits in the store
                await self._clock.sleep(self._setbacks.wait_s(setback))

    def health(self) -> ChannelHealth:
        heard, clock = self._heard_at, self._clock
        heard_at = None if heard is None else clock.now() - (clock.monotonic() - heard)
        return ChannelHealth(heard_at, self._setbacks.trouble)

    async def _stay(self) -> Setback:
        """Connected for as long as that works; why it did not."""
        client = Client(
            self._config,
            hear=self._receive,
            buckets=self.buckets,
            logged_in=self._introduce,
            pause=self._pause,
            sleep=self._clock.sleep,
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, client)
                await self._start(client, self._config.token.reveal())
                tasks.cancel_scope.cancel()
            return Setback("down", "the connection was closed")
        except Exception as error:  # noqa: BLE001 - whoever began anew without a pause would cost the token
            return self._setback(error, str(client.application_id or ""), began=client.socket is not None)
        finally:
            self._end_session()
            self._closed()
            await client.leave()

    async def _pause(self, why: str, *, opened: bool, began: bool) -> None:
        """The line broke, as it does every few hours; whoever held until now is tried again at once."""
        held = self._end_session()
        setback = Setback("short" if opened and not held else "down", why, began=began)
        await self._clock.sleep(self._setbacks.wait_s(setback, at_once=True))

    def _end_session(self) -> bool:
        """Whether there was one, and it held."""
        held = self._settle()
        self._ready_at = None
        return held

    def _settle(self) -> bool:
        held = self._ready_at is not None and self._clock.monotonic() - self._ready_at >= SETTLED_S
        if held:
            self._setbacks.over()
        return held

    def _introduce(self, client: discord.Client) -> None:
        user = client.user
        if user is None:
            raise discord.GatewayNotFound
        me = Me(str(user.id), user.name, str(client.application_id or user.id))
        self._opened(me, Calls(client.http, me.application_id, self._hide))

    async def _watch(self, client: Client) -> None:
        """What takes too long is told, and then begun anew."""
        heard_at = tried_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            now, ago = self._clock.monotonic(), client.heard_s_ago()
            if ago is not None:
                heard_at = max(heard_at, now - ago)
                self._heard_at = max(self._heard_at or 0.0, heard_at)
                self._settle()
            tried_at = now if client.pausing else max(tried_at, heard_at)
            if now - heard_at > LOUD_AFTER_S:
                self._setbacks.note(Setback("down", "nothing comes from its gateway"), heard_at)
            if now - tried_at > STUCK_S:
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

    def _setback(self, error: BaseException, app: str, *, began: bool) -> Setback:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        text = self._hide(why_unreachable(error))[:200]
        match error:
            case discord.LoginFailure():
                return Setback("token", text)
            case discord.PrivilegedIntentsRequired():
                return Setback("intent", "close code 4014", app)
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
