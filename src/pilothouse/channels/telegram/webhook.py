"""Receives updates by webhook: a small HTTP server behind a reverse proxy that does TLS.

Telegram gets a 200 only when the update was handled for good or is on the disk (law 1); otherwise it sends the update
again. Of one chat it sends the next update only after that, so pieces of a larger message are written to the disk at
once. Requests without the secret get no information and cost little: time, size and connections are bounded.

An unreachable webhook looks like a quiet day, so Telegram is asked every minute whether updates wait there.
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
from pilothouse.channels.telegram.poll import Backoff
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.updates import UpdateQueues
from pilothouse.channels.telegram.wire import NoUpdate, WebhookInfo, read_update
from pilothouse.core.clock import Clock
from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

LOOK_EVERY_S = 60.0
LOUD_AFTER = 2
"""Checks in a row that find waiting updates without a call, or another address, before the alarm."""

UNREACHABLE = (
    "Telegram has messages for us and cannot deliver them ({why}). Check that webhook.url leads to this machine from "
    "outside, with a valid certificate. The messages wait at Telegram until it does."
)
NO_REASON = "it gives no reason"
REPLACED = (
    "Another program takes this bot's webhook away again and again, and gets its messages. Stop it, or give this "
    "Pilothouse a bot of its own."
)

SECRET_HEADER = b"x-telegram-bot-api-secret-token"
BODY_BYTES = 4 << 20
"""An update has a few kilobytes; the largest ones are far below this."""
REQUEST_S = 30.0
"""Longest time from a request's first byte to its last."""
IDLE_S = 120.0
CONNECTIONS = 32
READ_BYTES = 64 << 10
NOT_LISTENING = (
    "The webhook cannot listen at {host}:{port}: {why}. Stop the program that uses the port, or set webhook.host and "
    "webhook.port to a free one."
)

Accept = Callable[[bytes], Awaitable[bool]]
"""Takes an update's bytes; true once they are durable or need not be."""


class WebhookWatch:
    """Sets the webhook and checks it every minute.

    `called_at` gives the time of Telegram's last call; `heard` is called when the webhook works, `alarm` once when not."""

    def __init__(
        self,
        client: BotClient,
        hook: WebhookConfig,
        clock: Clock,
        log: Callable[..., None],
        backoff: Backoff,
        *,
        called_at: Callable[[], float | None],
        heard: Callable[[], None],
        alarm: Callable[[str], None],
    ) -> None:
        self._client = client
        self._hook = hook
        self._clock = clock
        self._log = log
        self._backoff = backoff
        self._called_at = called_at
        self._heard = heard
        self._alarm = alarm
        self._ours = hook.url
        """Our URL as Telegram spells it."""
        self._last_call: float | None = None
        self._unheard = 0
        self._replaced = 0

    async def run(self) -> None:
        info = await self._set()
        while True:
            if not self._replaced:
                self._check_delivery(info)
            await self._clock.sleep(LOOK_EVERY_S)
            info = await self._look()
            if info.url == self._ours:
                self._replaced = 0
                continue
            self._replaced += 1
            self._log("telegram.webhook_taken", level="warning", in_a_row=self._replaced)
            if self._replaced == LOUD_AFTER:
                self._alarm(REPLACED)
            info = await self._set()

    async def _set(self) -> WebhookInfo:
        while isinstance(
            told := await self._client.set_webhook(self._hook.url, self._hook.secret.reveal()), Trouble
        ):
            await self._clock.sleep(self._backoff.wait_s(told))
        info = await self._look()
        self._ours = info.url or self._hook.url
        return info

    async def _look(self) -> WebhookInfo:
        while isinstance(info := await self._client.get_webhook_info(), Trouble):
            await self._clock.sleep(self._backoff.wait_s(info))
        self._backoff.succeeded()
        return info

    def _check_delivery(self, info: WebhookInfo) -> None:
        """Tell whether updates that wait at Telegram are on their way or stuck."""
        last, self._last_call = self._last_call, self._called_at()
        if not info.pending_update_count or self._last_call != last:
            self._unheard = 0
            self._heard()
            return
        self._unheard += 1
        if self._unheard == LOUD_AFTER:
            self._alarm(UNREACHABLE.format(why=info.last_error_message or NO_REASON))


class WebhookAddress(Struct, frozen=True):
    """The listening address, and the secret that requests must have."""

    secret: Secret
    host: str = "127.0.0.1"
    port: int = 0
    path: str = "/telegram"


@asynccontextmanager
async def open_webhook(address: WebhookAddress, accept: Accept) -> AsyncIterator[int]:
    """Serve the webhook while open. Yields the port, which the system chooses if `address.port` is 0."""
    assert address.secret, "a webhook needs a secret"
    try:
        listener = await anyio.create_tcp_listener(local_host=address.host, local_port=address.port)
    except OSError as error:
        words = NOT_LISTENING.format(host=address.host, port=address.port, why=error.strerror or error)
        raise ConfigError(words) from error
    connections = anyio.Semaphore(CONNECTIONS)

    async def serve(stream: SocketStream) -> None:
        async with stream:
            try:
                connections.acquire_nowait()
            except anyio.WouldBlock:
                return
            try:
                await _Connection(stream, address, accept).serve()
            except (anyio.BrokenResourceError, anyio.EndOfStream, h11.RemoteProtocolError, TimeoutError):
                pass
            finally:
                connections.release()

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - no database here
        tasks.cancel_scope.cancel()


class _Connection:
    """One connection, which may bring many requests."""

    def __init__(self, stream: SocketStream, address: WebhookAddress, accept: Accept) -> None:
        self._stream = stream
        self._address = address
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
        if request.target.partition(b"?")[0] != self._address.path.encode():
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
        return hmac.compare_digest(given, self._address.secret.reveal().encode())

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
        """Answer. If the request was not read to its end, the connection closes."""
        close = [] if self._http.their_state is h11.DONE else [("Connection", "close")]
        response = h11.Response(status_code=status, headers=[("Content-Length", "0"), *close])
        data = (self._http.send(response) or b"") + (self._http.send(h11.EndOfMessage()) or b"")
        await self._stream.send(data)


class WebhookReceiver:
    def __init__(self, address: WebhookAddress, queues: UpdateQueues, clock: Clock) -> None:
        self._address = address
        self._queues = queues
        self._clock = clock
        self.called_at: float | None = None
        """Monotonic time of Telegram's last call."""
        self.succeeded_at: float | None = None
        """Monotonic time of the last accepted update."""
        self.refuses = False
        """The last update was not accepted."""

    async def run(self, opened: Callable[[int], None]) -> None:
        """Serve until cancelled. `opened` gets the port: only then may Telegram learn the address."""
        await self._queues.restore()
        async with anyio.create_task_group() as tasks, open_webhook(self._address, self._accept) as port:
            opened(port)
            await self._queues.run(tasks)

    async def _accept(self, raw: bytes) -> bool:
        self.called_at = self._clock.monotonic()
        if taken := await self._take(raw):
            self.succeeded_at = self._clock.monotonic()
        self.refuses = not taken
        return taken

    async def _take(self, raw: bytes) -> bool:
        """Wait until the update is safe. A body that is not an update is accepted: Telegram would repeat it for ever."""
        one = read_update(raw)
        self._queues.add([one])
        if isinstance(one, NoUpdate):
            return True
        number = one.update.update_id
        while not self._queues.is_safe(number):
            await self._queues.progress()
            if self._queues.is_refused(number):
                return False
        return True
