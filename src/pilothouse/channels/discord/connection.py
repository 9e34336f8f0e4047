"""The seam to discord.py: it keeps the gateway and the buckets; what it hears comes out as raw values.

Nothing of its own caches is used: its parsers are replaced by one that passes events on, so that a server with a
thousand channels costs what we remember of it, and a payload that it cannot read costs nothing.
A token that is refused, an intent that is missing and a network that is down are waited out, and told once. What only a
restart can mend is told, and left alone: each try would be one of the sessions that a bot may begin in a day.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import anyio
import discord
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route
from discord.state import ConnectionState
from msgspec import Struct

from pilothouse.channels.discord.buckets import Buckets
from pilothouse.channels.discord.calls import Calls, tracing
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.setbacks import FINAL, Setback, Setbacks
from pilothouse.channels.discord.wire import Event
from pilothouse.channels.reach import why_unreachable
from pilothouse.core.channel import ChannelHealth
from pilothouse.core.clock import Clock

EVENTS = [
    "READY",
    "RESUMED",
    "GUILD_CREATE",
    "GUILD_UPDATE",
    "GUILD_DELETE",
    "GUILD_ROLE_CREATE",
    "GUILD_ROLE_UPDATE",
    "CHANNEL_CREATE",
    "CHANNEL_UPDATE",
    "CHANNEL_DELETE",
    "THREAD_CREATE",
    "THREAD_UPDATE",
    "THREAD_DELETE",
    "THREAD_LIST_SYNC",
    "MESSAGE_CREATE",
    "MESSAGE_UPDATE",
    "MESSAGE_DELETE",
    "MESSAGE_DELETE_BULK",
    "MESSAGE_REACTION_ADD",
    "MESSAGE_REACTION_REMOVE",
    "INTERACTION_CREATE",
]

LOGIN_S = 60.0
STUCK_S = 180.0
"""Without a sign of life for this long, the connection is made anew; discord.py itself may sleep for longer."""
LOOK_EVERY_S = 5.0
CLOSE_S = 5.0
HIDDEN = "[token]"
REFUSED_TOKEN = 4004

_INTERACTION = re.compile(r"(/(?:interactions|webhooks)/\d+/)[^/\s?]+")
"""In an address that the library warns of: whoever has this token answers in our name for a while."""

Hear = Callable[[Event], None]
Start = Callable[[discord.Client, str], Awaitable[None]]
"""Logs a client in with a token, and returns once its connection has ended. `setup_hook` is called between the two."""


class Me(Struct, frozen=True):
    id: str
    name: str
    application_id: str


class Stuck(Exception):
    """Nothing was heard for too long."""


_FORESEEN = (discord.DiscordException, aiohttp.ClientError, OSError, TimeoutError, Stuck)


def point_at(config: DiscordConfig) -> None:
    """Where Discord is. The library keeps this in its classes, so it is said in this one place."""
    Route.BASE = config.api_base.rstrip("/")
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(config.gateway_url)


async def start(client: discord.Client, token: str) -> None:
    """Over the network, to where `point_at` says."""
    with anyio.fail_after(LOGIN_S):
        await client.login(token)
    await client.connect()


def intents_of(config: DiscordConfig) -> discord.Intents:
    return discord.Intents(
        guilds=True,
        guild_messages=True,
        dm_messages=True,
        guild_reactions=True,
        dm_reactions=True,
        message_content=config.message_content,
    )


class _State(ConnectionState[Any]):
    def __init__(self, *, hear: Hear, **options: Any) -> None:
        super().__init__(**options)
        self.parsers = {name: _passing(name, hear) for name in EVENTS}
        self.socket: DiscordWebSocket | None = None

    # pyrefly: ignore [missing-override-decorator]
    def _update_references(self, ws: DiscordWebSocket) -> None:
        """Also of a socket that is still being opened, so that it can be closed."""
        self.socket = ws


class _Client(discord.Client):
    def __init__(
        self, config: DiscordConfig, hear: Hear, buckets: Buckets, logged_in: Callable[[discord.Client], None]
    ) -> None:
        self._hear = hear
        self._logged_in = logged_in
        super().__init__(
            intents=intents_of(config),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            http_trace=tracing(buckets),
            proxy=config.proxy or None,
        )

    # pyrefly: ignore [missing-override-decorator]
    def _get_state(self, **options: Any) -> _State:
        return _State(
            hear=self._hear,
            dispatch=self.dispatch,
            handlers=self._handlers,
            hooks=self._hooks,
            http=self.http,
            **options,
        )

    # pyrefly: ignore [missing-override-decorator]
    async def setup_hook(self) -> None:
        """Before the gateway says anything."""
        self._logged_in(self)

    # pyrefly: ignore [missing-override-decorator]
    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """After a session was lost, Discord wants a pause of one to five seconds."""
        if not initial:
            await anyio.sleep(random.uniform(1.0, 5.0))  # noqa: S311 - it shall only differ

    @property
    def socket(self) -> DiscordWebSocket | None:
        state = self._connection
        return state.socket if isinstance(state, _State) else None

    def heard_s_ago(self) -> float | None:
        """Since the last sign of life, of whatever kind: an idle server sends only heartbeats."""
        keeper = self.socket._keep_alive if self.socket is not None else None
        return None if keeper is None else time.perf_counter() - keeper._last_recv

    async def leave(self) -> None:
        """Closes all of it, also the thread that beats the heart of a socket that was not open yet."""
        with anyio.move_on_after(CLOSE_S, shield=True):
            if self.socket is not None and self.socket is not self.ws:
                await self.socket.close(code=1000)
            await self.close()
        if self.socket is not None and self.socket._keep_alive is not None:
            self.socket._keep_alive.stop()


class Connection:
    """`run` keeps it; `calls` is there while we are logged in, also when the gateway is away for a moment."""

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
        self._setbacks = Setbacks(clock, log, alarm)
        self._heard_at: float | None = None
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

    def health(self, trouble: str, trouble_at: float) -> ChannelHealth:
        heard = self._heard_at
        clock = self._clock
        shown = "" if heard is not None and heard >= trouble_at else trouble
        return ChannelHealth(None if heard is None else clock.now() - (clock.monotonic() - heard), shown)

    async def _stay(self) -> Setback:
        """Connected for as long as that works; why it did not."""
        client = _Client(self._config, self._receive, self.buckets, self._introduce)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._watch, client)
                await self._start(client, self._config.token.reveal())
                tasks.cancel_scope.cancel()
            return Setback("down", "the connection was closed")
        except (*_FORESEEN, ExceptionGroup) as error:
            return self._setback(error, str(client.application_id or ""))
        finally:
            self._closed()
            await client.leave()

    def _introduce(self, client: discord.Client) -> None:
        user = client.user
        if user is None:
            raise discord.GatewayNotFound
        me = Me(str(user.id), user.name, str(client.application_id or user.id))
        self._opened(me, Calls(client.http, me.application_id, self._hide))

    async def _watch(self, client: _Client) -> None:
        """discord.py connects again by itself; what takes too long is told, and then begun anew."""
        since = self._clock.monotonic()
        while True:
            await self._clock.sleep(LOOK_EVERY_S)
            now, ago = self._clock.monotonic(), client.heard_s_ago()
            if ago is not None:
                since = max(since, now - ago)
                self._heard_at = max(self._heard_at or 0.0, since)
            if now - since > LOOK_EVERY_S * 12:
                self._setbacks.note(Setback("down", "nothing comes from its gateway"), since)
            if now - since > STUCK_S:
                raise Stuck("its gateway said nothing")

    def _receive(self, event: Event) -> None:
        self._heard_at = self._clock.monotonic()
        if event.name in ("READY", "RESUMED"):
            self._setbacks.over()
        try:
            self._hear(event)
        except Exception as error:  # noqa: BLE001 - one event must not cost the connection
            self._log("discord.event_failed", level="error", key=event.name, error=error)

    def _setback(self, error: BaseException, app: str) -> Setback:
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
                return Setback("down", text)
            case _:
                raise error

    def _hide(self, text: str) -> str:
        token = self._config.token.reveal()
        return text.replace(token, HIDDEN) if token else text


def _passing(name: str, hear: Hear) -> Callable[[Any], None]:
    def parse(data: Any) -> None:
        hear(Event(name, data if isinstance(data, dict) else {}))

    return parse


@contextmanager
def logging_to(log: Callable[..., None], hide: Callable[[str], str]) -> Iterator[None]:
    """What the library warns about is an entry of ours, without the token and without a traceback."""
    logger = logging.getLogger("discord")
    handler = _Handler(log, hide)
    before = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


class _Handler(logging.Handler):
    def __init__(self, log: Callable[..., None], hide: Callable[[str], str]) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._hide = hide

    # pyrefly: ignore [missing-override-decorator]
    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "voice will NOT be supported" in text:
            return
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text}: {type(record.exc_info[1]).__name__} {record.exc_info[1]}"
        text = _INTERACTION.sub(rf"\g<1>{HIDDEN}", self._hide(text))
        self._log("discord.library_warned", level="warning", text=text[:300], logger=record.name)
