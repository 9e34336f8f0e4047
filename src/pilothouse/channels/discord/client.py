"""discord.py's client for one gateway session: it logs in, resumes by itself, and passes on every event as raw JSON.

A client ends where a second session would begin, so that `connection` decides when: a bot may begin 1000 sessions a day,
and the library would begin the next one at once. Everything used here is in discord.py's documentation, except
two class attributes that `point_at` sets.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import anyio
import discord
import msgspec
import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route
from msgspec import Struct

from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.discord.wire import Event

EVENTS = frozenset(
    {
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
    }
)

LOGIN_S = 60.0
CLOSE_S = 5.0
MOST_SOCKETS = 6
"""Sockets in a row that may end early before the session is given up."""
LONGEST_PAUSE_S = 600.0
"""discord.py fails a request whose limit lasts longer. It also fails requests to a bucket with a longer window that is not
empty, so this must not be shorter than the windows of the buckets that we use."""
HELLO, INVALID_SESSION = 10, 9
HIDDEN = "[token]"

_INTERACTION = re.compile(r"(/(?:interactions|webhooks)/\d+/)[^/\s?]+")
"""The token of an interaction in an address that the library logs: with it anybody can answer in our name."""

Hear = Callable[[Event], None]
Start = Callable[[discord.Client, str], Awaitable[None]]
"""Logs a client in with a token, and returns once its connection has ended. `setup_hook` is called in between."""


class SessionLost(Exception):
    """The session cannot be resumed; the message says why."""


class _Frame(Struct, frozen=True):
    op: int = -1
    t: str | None = None
    d: Any = None


_decode = msgspec.json.Decoder(_Frame).decode


async def start(client: discord.Client, token: str) -> None:
    """Log in and stay connected for one session."""
    with anyio.fail_after(LOGIN_S):
        await client.login(token)
    await client.connect(reconnect=False)


def intents_of(config: DiscordConfig) -> discord.Intents:
    return discord.Intents(
        guilds=True,
        guild_messages=True,
        dm_messages=True,
        guild_reactions=True,
        dm_reactions=True,
        message_content=config.message_content,
    )


class Client(discord.Client):
    def __init__(
        self,
        config: DiscordConfig,
        *,
        hear: Hear,
        trace: aiohttp.TraceConfig,
        logged_in: Callable[[discord.Client], None],
    ) -> None:
        super().__init__(
            intents=intents_of(config),
            max_messages=None,
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            http_trace=trace,
            proxy=config.proxy or None,
            enable_debug_events=True,
            max_ratelimit_timeout=LONGEST_PAUSE_S,
        )
        self._pass_on = hear
        self._logged_in = logged_in
        self._heard_at = 0.0
        self.began = False
        """A session was asked for."""
        self.stands = False
        """The gateway accepted the session on this socket."""
        self.sockets = 0
        self.lost = ""
        """The reason why the session was given up."""

    # pyrefly: ignore [missing-override-decorator]
    async def setup_hook(self) -> None:
        """discord.py calls this before it connects to the gateway."""
        self._logged_in(self)

    # pyrefly: ignore [missing-override-decorator]
    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        if self.began:
            raise SessionLost(self.lost or "the session could not be resumed")
        self.began = True

    async def on_socket_raw_receive(self, message: str) -> None:
        """discord.py calls this with every frame of the gateway, in order, before it reads the frame itself."""
        if self.is_closed():
            return
        frame = _decode(message)
        self._heard_at = time.monotonic()
        if frame.op == HELLO:
            self.sockets += 1
            self.stands = False
            if self.sockets > MOST_SOCKETS:
                await self._give_up(f"the connection broke {MOST_SOCKETS} times in a row")
        elif frame.op == INVALID_SESSION and frame.d is not True:
            await self._give_up("it refused our session")
        elif frame.t in EVENTS:
            self.stands = self.stands or frame.t in ("READY", "RESUMED")
            self._pass_on(Event(frame.t or "", frame.d if isinstance(frame.d, dict) else {}))

    def heard_s_ago(self) -> float | None:
        """Seconds since the last frame (also a heartbeat) of an accepted session; None if there is none."""
        return time.monotonic() - self._heard_at if self.stands else None

    async def leave(self) -> None:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await self.close()

    async def _give_up(self, why: str) -> None:
        self.lost = why
        await self.close()


@contextmanager
def logging_to(log: Callable[..., None], hide: Callable[[str], str]) -> Iterator[None]:
    """Log the library's warnings as entries of ours, without the token and without a traceback."""
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


def point_at(config: DiscordConfig) -> None:
    """Use the addresses of a configuration, for every client in this process: Discord's own, or those of the tests.

    discord.py has no documented setting for this, so two of its class attributes are set here and nowhere else.
    `tests/channels/discord/test_endpoint.py` fails if a release renames one of them."""
    Route.BASE = config.api_base.rstrip("/")
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(config.gateway_url)
