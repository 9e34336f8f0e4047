"""Receives updates by webhook, behind a reverse proxy that does TLS.

Telegram gets a 200 only when the update was handled for good or is on the disk (law 1); otherwise it sends the update
again. Of one chat it sends the next update only after that, so pieces of a larger message are written to the disk at
once.

An unreachable webhook looks like a quiet day, so Telegram is asked every minute whether updates wait there.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import anyio

from pilothouse.channels.telegram.client import Backoff, BotClient
from pilothouse.channels.telegram.config import WebhookConfig
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.updates import UpdateQueues
from pilothouse.channels.telegram.wire import NoUpdate, WebhookInfo, read_update
from pilothouse.core.clock import Clock
from pilothouse.core.errors import ConfigError
from pilothouse.http.server import Request, Response, open_server

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

PROOF_HEADER = "x-telegram-bot-api-secret-token"
BODY_BYTES = 4 << 20
"""An update has a few kilobytes; the largest ones are far below this."""
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


@asynccontextmanager
async def open_webhook(address: WebhookConfig, accept: Accept) -> AsyncIterator[int]:
    """Serve the webhook while open. Yields the port, which the system chooses if `address.port` is 0."""
    assert address.secret, "a webhook needs a secret"

    async def answer(request: Request) -> Response:
        if request.path != address.path:
            return Response(404)
        if request.method != "POST":
            return Response(405)
        given = request.headers.get(PROOF_HEADER, "").encode("latin-1")
        if not hmac.compare_digest(given, address.secret.reveal().encode()):
            return Response(401)
        if not request.admit():
            return Response(503)
        body = await request.body(BODY_BYTES)
        if body is None:
            return Response(413)
        return Response(200 if await accept(body) else 503)

    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(open_server(address.host, address.port, answer))
        except OSError as error:
            words = NOT_LISTENING.format(host=address.host, port=address.port, why=error.strerror or error)
            raise ConfigError(words) from error
        yield port


class WebhookReceiver:
    def __init__(self, address: WebhookConfig, queues: UpdateQueues, clock: Clock) -> None:
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
