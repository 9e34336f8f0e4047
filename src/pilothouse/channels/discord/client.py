"""discord.py's client, as far as we use it: it logs in, holds the gateway, and passes on what it hears, raw.

Nothing of its own caches is used: its parsers are replaced by one that passes events on, so that a server with a
thousand channels costs what we remember of it, and a payload that it cannot read costs nothing. When its line breaks it
asks how long to wait: the library would come again at once, for ever, and a bot may begin a thousand sessions a day.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import aiohttp
import anyio
import discord
import yarl
from discord.gateway import DiscordWebSocket, ReconnectWebSocket
from discord.http import Route
from discord.state import ConnectionState

from pilothouse.channels.advice import why_unreachable
from pilothouse.channels.discord.buckets import Buckets
from pilothouse.channels.discord.calls import tracing
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.wire import Event

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
OPENING_S = 60.0
MOST_RESUMES = 6
CLEAN, MISSING_INTENT = 1000, 4014
CLOSE_S = 5.0
HIDDEN = "[token]"

_INTERACTION = re.compile(r"(/(?:interactions|webhooks)/\d+/)[^/\s?]+")
"""In an address that the library warns of: whoever has this token answers in our name for a while."""

Hear = Callable[[Event], None]
Start = Callable[[discord.Client, str], Awaitable[None]]
"""Logs a client in with a token, and returns once its connection has ended. `setup_hook` is called between the two."""


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


class Pause(Protocol):
    """Whoever decides when a line that broke is tried again. `began`: a session was begun for it."""

    async def __call__(self, why: str, *, opened: bool, began: bool) -> None: ...


class _State(ConnectionState[Any]):
    def __init__(self, *, hear: Hear, **options: Any) -> None:
        super().__init__(**options)
        self._hear = hear
        self.parsers = {name: self._passing(name) for name in EVENTS}
        self.socket: DiscordWebSocket | None = None
        self.ready = False
        """Whether the gateway has taken our session, on this socket: until then it tells us nothing."""

    # pyrefly: ignore [missing-override-decorator]
    def _update_references(self, ws: DiscordWebSocket) -> None:
        """Also of a socket that is still being opened, so that it can be closed."""
        self.socket, self.ready = ws, False

    def _passing(self, name: str) -> Callable[[Any], None]:
        def parse(data: Any) -> None:
            self.ready = self.ready or name in ("READY", "RESUMED")
            self._hear(Event(name, data if isinstance(data, dict) else {}))

        return parse


class Client(discord.Client):
    def __init__(
        self,
        config: DiscordConfig,
        *,
        hear: Hear,
        buckets: Buckets,
        logged_in: Callable[[discord.Client], None],
        pause: Pause,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._hear = hear
        self._logged_in = logged_in
        self._pause = pause
        self._sleep = sleep
        self.pausing = False
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
            await self._sleep(random.uniform(1.0, 5.0))  # noqa: S311 - it shall only differ

    # pyrefly: ignore [missing-override-decorator]
    async def connect(self, *, reconnect: bool = True) -> None:
        """Until it is closed, or the gateway wants us no more. After too many tries in a row a session is given up."""
        tries = 0
        while not self.is_closed():
            session = self.ws.session_id if self.ws and tries < MOST_RESUMES else None
            opened = self.socket
            try:
                await self._hold(session, initial=self.ws is None)
            except ReconnectWebSocket:
                why = _farewell(self.ws)
            except (OSError, aiohttp.ClientError, discord.HTTPException, discord.GatewayNotFound) as error:
                why = why_unreachable(error)
            except discord.ConnectionClosed as error:
                if error.code == MISSING_INTENT:
                    raise discord.PrivilegedIntentsRequired(error.shard_id) from None
                if error.code != CLEAN:
                    raise
                why = _farewell(self.ws)
            stood = self.socket is not opened
            if session is not None and self.ws.session_id is None and not self.ready:
                continue  # it knows that session no more, and takes a new one
            tries = 1 if stood and self.ready else tries + 1
            self.pausing = True
            await self._pause(why, opened=stood, began=stood and session is None)
            self.pausing = False

    async def _hold(self, session: str | None, *, initial: bool) -> NoReturn:
        """One socket, from its opening to its end, which is an exception."""
        resume: dict[str, Any] = {}
        if session is not None:
            ws = self.ws
            resume = {"resume": True, "session": session, "sequence": ws.sequence, "gateway": ws.gateway}
        with anyio.fail_after(OPENING_S):
            self.ws = await DiscordWebSocket.from_client(self, initial=initial, **resume)
        while True:
            await self.ws.poll_event()

    @property
    def socket(self) -> DiscordWebSocket | None:
        state = self._connection
        return state.socket if isinstance(state, _State) else None

    @property
    def ready(self) -> bool:
        state = self._connection
        return isinstance(state, _State) and state.ready

    def heard_s_ago(self) -> float | None:
        """Since the last sign of life in a session, of whatever kind: an idle server sends only heartbeats."""
        keeper = self.socket._keep_alive if self.socket is not None and self.ready else None
        return None if keeper is None else time.perf_counter() - keeper._last_recv

    async def leave(self) -> None:
        """Closes all of it, also the thread that beats the heart of a socket that was not open yet."""
        with anyio.move_on_after(CLOSE_S, shield=True):
            if self.socket is not None and self.socket is not self.ws:
                await self.socket.close(code=1000)
            await self.close()
        if self.socket is not None and self.socket._keep_alive is not None:
            self.socket._keep_alive.stop()


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


def _farewell(socket: DiscordWebSocket) -> str:
    """Why it ended, in words; whether we closed it, or they did."""
    code = socket.socket.close_code if socket._close_code is None else None
    if code is not None:
        return f"the connection was closed with code {code}"
    return "it wants a new connection" if socket.session_id else "it refused our session"


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
