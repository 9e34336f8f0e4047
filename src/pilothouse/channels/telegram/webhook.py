"""Telegram calls us: a small HTTP receiver for updates, to stand behind a reverse proxy that does TLS.

Telegram is told 200 only when `accept` has the update for good (law 1); anything else makes it send the update again.
Whoever does not know the secret is told nothing and costs little: time, size and number of connections are bounded.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

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
