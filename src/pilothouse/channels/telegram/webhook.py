"""Tells Telegram where to call us, and looks every minute whether it does.

A webhook that nobody can reach is silent, as a quiet day is: only Telegram knows which of the two it is, so it is asked.

Telegram calls us: a small HTTP receiver for updates, to stand behind a reverse proxy that does TLS.

Telegram is told 200 only when `accept` has the update for good (law 1); anything else makes it send the update again.
Whoever does not know the secret is told nothing and costs little: time, size and number of connections are bounded.

Receives by webhook: Telegram's call is answered when its update was taken for good, or is kept, not before (law 1).

Of a chat Telegram brings the next update only after that: a piece of something larger is kept at once. What the disk does
not take is refused: Telegram brings it again.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.config import WebhookConfig
from pilothouse.channels.telegram.poll import Setbacks
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.updates import Lanes
from pilothouse.channels.telegram.wire import NoUpdate, WebhookInfo, read_update
from pilothouse.core.clock import Clock
from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

LOOK_EVERY_S = 60.0
LOUD_AFTER = 2
"""Looks in a row, and a minute between them: something waited all the while, and nobody called; or it was not our address."""

UNREACHED = (
    "Telegram has messages for us and cannot bring them ({why}). Look whether webhook.url leads to this machine from "
    "outside, with a certificate that is valid. They wait there, and are taken up when it does."
)
NO_WORD = "it does not say why"
TAKEN = (
    "Another program takes this bot's webhook away again and again, and gets its messages. Stop it, or give this "
    "Pilothouse a bot of its own."
)

SECRET_HEADER = b"x-telegram-bot-api-secret-token"
BODY_BYTES = 4 << 20
"""An update is a few kilobytes; the largest that Telegram makes are far below."""
REQUEST_S = 30.0
"""From a request's first byte to its last."""
IDLE_S = 120.0
CONNECTIONS = 32
READ_BYTES = 64 << 10

CLOSED = (
    "The webhook cannot listen at {host}:{port}: {why}. End the program that has the port, or set webhook.host and "
    "webhook.port to what is free."
)

Accept = Callable[[bytes], Awaitable[bool]]
"""Takes an update's bytes; true once they are durable, or need not be."""


class HookWatch:
    """`called_at` tells when Telegram last called us, `heard` is told that it can; `alarm`, once, what is wrong."""

    def __init__(
        self,
        client: BotClient,
        hook: WebhookConfig,
        clock: Clock,
        log: Callable[..., None],
        setbacks: Setbacks,
        *,
        called_at: Callable[[], float | None],
        heard: Callable[[], None],
        alarm: Callable[[str], None],
    ) -> None:
        self._client = client
        self._hook = hook
        self._clock = clock
        self._log = log
        self._setbacks = setbacks
        self._called_at = called_at
        self._heard = heard
        self._alarm = alarm
        self._ours = hook.url
        """As Telegram spells it: it may write a host or a path in its own way."""
        self._last_call: float | None = None
        self._unheard = 0
        self._taken = 0

    async def run(self) -> None:
        info = await self._set()
        while True:
            if not self._taken:
                self._judge(info)
            await self._clock.sleep(LOOK_EVERY_S)
            info = await self._look()
            if info.url == self._ours:
                self._taken = 0
                continue
            self._taken += 1
            self._log("telegram.webhook_taken", level="warning", in_a_row=self._taken)
            if self._taken == LOUD_AFTER:
                self._alarm(TAKEN)
            info = await self._set()

    async def _set(self) -> WebhookInfo:
        while isinstance(
            told := await self._client.set_webhook(self._hook.url, self._hook.secret.reveal()), Trouble
        ):
            await self._clock.sleep(self._setbacks.wait_s(told))
        info = await self._look()
        self._ours = info.url or self._hook.url
        return info

    async def _look(self) -> WebhookInfo:
        while isinstance(info := await self._client.get_webhook_info(), Trouble):
            await self._clock.sleep(self._setbacks.wait_s(info))
        self._setbacks.over()
        return info

    def _judge(self, info: WebhookInfo) -> None:
        """Whether what waits at Telegram's is on its way, or stuck there."""
        last, self._last_call = self._last_call, self._called_at()
        if not info.pending_update_count or self._last_call != last:
            self._unheard = 0
            self._heard()
            return
        self._unheard += 1
        if self._unheard == LOUD_AFTER:
            self._alarm(UNREACHED.format(why=info.last_error_message or NO_WORD))


class Door(Struct, frozen=True):
    """Where Telegram, or the proxy before us, knocks."""

    secret: Secret
    host: str = "127.0.0.1"
    port: int = 0
    path: str = "/telegram"


@asynccontextmanager
async def open_webhook(door: Door, accept: Accept) -> AsyncIterator[int]:
    """Receives for as long as it is open; gives the port, which the system chose if `door.port` is 0."""
    assert door.secret, "a webhook without a secret would let everybody in"
    try:
        listener = await anyio.create_tcp_listener(local_host=door.host, local_port=door.port)
    except OSError as error:
        words = CLOSED.format(host=door.host, port=door.port, why=error.strerror or error)
        raise ConfigError(words) from error
    seats = anyio.Semaphore(CONNECTIONS)

    async def greet(stream: SocketStream) -> None:
        async with stream:
            try:
                seats.acquire_nowait()
            except anyio.WouldBlock:
                return
            try:
                await _Visit(stream, door, accept).serve()
            except (anyio.BrokenResourceError, anyio.EndOfStream, h11.RemoteProtocolError, TimeoutError):
                pass
            finally:
                seats.release()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, greet)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - no database here
        tasks.cancel_scope.cancel()


class _Visit:
    """One connection, which may bring many requests."""

    def __init__(self, stream: SocketStream, door: Door, accept: Accept) -> None:
        self._stream = stream
        self._door = door
        self._accept = accept
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        while True:
            with anyio.fail_after(IDLE_S):
                request = await self._next()
            if not isinstance(request, h11.Request):
                return
            with anyio.fail_after(REQUEST_S):
                status = await self._answer(request)
            await self._reply(status)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _answer(self, request: h11.Request) -> int:
        if request.target.partition(b"?")[0] != self._door.path.encode():
            return 404
        if request.method != b"POST":
            return 405
        if not self._knows_secret(request):
            return 401
        body = await self._body()
        if body is None:
            return 413
        return 200 if await self._accept(body) else 503

    def _knows_secret(self, request: h11.Request) -> bool:
        given = next((value for name, value in request.headers if name == SECRET_HEADER), b"")
        return hmac.compare_digest(given, self._door.secret.reveal().encode())

    async def _body(self) -> bytes | None:
        body = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            body += event.data
            if len(body) > BODY_BYTES:
                return None
        return bytes(body)

    async def _next(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._stream.send(
                    self._http.send(h11.InformationalResponse(status_code=100, headers=[]))
                )
            try:
                self._http.receive_data(await self._stream.receive(READ_BYTES))
            except anyio.EndOfStream:
                self._http.receive_data(b"")
        return event

    async def _reply(self, status: int) -> None:
        """What was refused unread is not waited for: the connection closes."""
        close = [] if self._http.their_state is h11.DONE else [("Connection", "close")]
        response = h11.Response(status_code=status, headers=[("Content-Length", "0"), *close])
        data = (self._http.send(response) or b"") + (self._http.send(h11.EndOfMessage()) or b"")
        await self._stream.send(data)


class Hooked:
    def __init__(self, door: Door, lanes: Lanes, clock: Clock) -> None:
        self._door = door
        self._lanes = lanes
        self._clock = clock
        self.called_at: float | None = None
        """When Telegram last called, by the clock that never jumps."""
        self.succeeded_at: float | None = None
        """When something that it brought was last taken."""
        self.refuses = False
        """Whether the last that it brought was not."""

    async def run(self, opened: Callable[[int], None]) -> None:
        """`opened` is told the port: only then may Telegram be told the address."""
        await self._lanes.take_up()
        async with anyio.create_task_group() as tasks, open_webhook(self._door, self._accept) as port:
            opened(port)
            await self._lanes.run(tasks)

    async def _accept(self, raw: bytes) -> bool:
        self.called_at = self._clock.monotonic()
        if taken := await self._take(raw):
            self.succeeded_at = self._clock.monotonic()
        self.refuses = not taken
        return taken

    async def _take(self, raw: bytes) -> bool:
        """What is no update is taken too: Telegram would send it again for ever."""
        one = read_update(raw)
        self._lanes.see([one])
        if isinstance(one, NoUpdate):
            return True
        number = one.update.update_id
        while not self._lanes.is_safe(number):
            await self._lanes.progress()
            if self._lanes.is_refused(number):
                return False
        return True
