"""A small HTTP/1.1 server for what others call: webhooks. It stands behind a reverse proxy that does TLS, or on loopback.

Requests of strangers get no information and cost little: time, size and connections are bounded. A connection that has not
shown that it may call makes room for a new one, so silent ones keep nobody out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import anyio
import h11
from anyio.abc import SocketAttribute, SocketStream
from msgspec import Struct

REQUEST_S = 30.0
"""Longest time from a request's first byte to its last."""
IDLE_S = 120.0
FIRST_S = 10.0
"""Time for the head of the first request; only a known caller's connection may be idle."""
CONNECTIONS = 32
"""Connections of known callers, and as many of unknown ones."""
READ_BYTES = 64 << 10


class Request(Struct, frozen=True):
    """`headers` has lower-case names. `body` reads up to a limit, and returns None past it.

    `admit` makes the caller known, which keeps the connection; false if too many known ones are open."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Callable[[int], Awaitable[bytes | None]]
    admit: Callable[[], bool]
    query: str = ""


class Response(Struct, frozen=True):
    status: int
    body: bytes = b""
    media_type: str = "application/json"


Answer = Callable[[Request], Awaitable[Response]]


@asynccontextmanager
async def open_server(host: str, port: int, answer: Answer) -> AsyncIterator[int]:
    """Serve while open. Yields the port, which the system chooses if it is 0. Raises `OSError`."""
    listener = await anyio.create_tcp_listener(local_host=host, local_port=port)
    limit = _ConnectionLimit()

    async def serve(stream: SocketStream) -> None:
        async with stream:
            with anyio.CancelScope() as scope, limit.count(scope) as admit:
                try:
                    await _Connection(stream, answer, admit).serve()
                except (anyio.BrokenResourceError, anyio.EndOfStream, h11.ProtocolError, TimeoutError):
                    pass

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - no database here
        tasks.cancel_scope.cancel()


class _ConnectionLimit:
    """Bounds the connections. Of unknown callers the oldest is closed for a new one; known ones are never closed."""

    def __init__(self) -> None:
        self._unknown: dict[int, anyio.CancelScope] = {}
        self._known: set[int] = set()

    @contextmanager
    def count(self, scope: anyio.CancelScope) -> Iterator[Callable[[], bool]]:
        """Yield a function that makes the connection a known one; false if there are too many."""
        if len(self._unknown) >= CONNECTIONS:
            self._unknown.pop(next(iter(self._unknown))).cancel()
        id_ = id(scope)
        self._unknown[id_] = scope

        def admit() -> bool:
            if len(self._known) >= CONNECTIONS and id_ not in self._known:
                return False
            self._unknown.pop(id_, None)
            self._known.add(id_)
            return True

        try:
            yield admit
        finally:
            self._unknown.pop(id_, None)
            self._known.discard(id_)


class _Connection:
    """One connection, which may bring many requests."""

    def __init__(self, stream: SocketStream, answer: Answer, admit: Callable[[], bool]) -> None:
        self._admit = admit
        self._is_known = False
        self._stream = stream
        self._answer = answer
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        while True:
            with anyio.fail_after(IDLE_S if self._is_known else FIRST_S):
                head = await self._next()
            if not isinstance(head, h11.Request):
                return
            with anyio.fail_after(REQUEST_S):
                response = await self._respond(head)
            await self._reply(response)
            done = self._http.our_state is self._http.their_state is h11.DONE
            if not done or not self._is_known:
                return
            self._http.start_next_cycle()

    async def _respond(self, head: h11.Request) -> Response:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        path, _, query = head.target.decode("latin-1").partition("?")
        method = head.method.decode("latin-1")
        request = Request(method, path, headers, self._body, self._mark_known, query)
        try:
            return await self._answer(request)
        except h11.RemoteProtocolError:  # the body ended too early
            return Response(400)

    def _mark_known(self) -> bool:
        self._is_known = self._admit()
        return self._is_known

    async def _body(self, limit: int) -> bytes | None:
        body = bytearray()
        while isinstance(event := await self._next(), h11.Data):
            body += event.data
            if len(body) > limit:
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

    async def _reply(self, response: Response) -> None:
        """Answer. The connection closes if the caller is unknown, or the request was not read to its end."""
        stays = self._is_known and self._http.their_state is h11.DONE
        headers = [("Content-Length", str(len(response.body)))]
        headers += [("Content-Type", response.media_type)] if response.body else []
        headers += [] if stays else [("Connection", "close")]
        data = self._http.send(h11.Response(status_code=response.status, headers=headers)) or b""
        data += (self._http.send(h11.Data(data=response.body)) or b"") if response.body else b""
        await self._stream.send(data + (self._http.send(h11.EndOfMessage()) or b""))
