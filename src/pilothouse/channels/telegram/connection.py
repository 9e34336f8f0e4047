"""One connection to an HTTP server: one request after the other, each with one bounded answer.

An answer is listened for while its request is still sent: a server that refuses a large file says so before its end,
and may read no further.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Sequence
from typing import Any

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSAttribute
from msgspec import Struct

from pilothouse.channels.advice import why_unreachable
from pilothouse.channels.telegram.bodies import PIECE_BYTES, Body
from pilothouse.channels.telegram.trouble import NetworkDown, TooBig, Trouble
from pilothouse.core.secret import Secret

Headers = Sequence[tuple[bytes, bytes]]

HEAD_BYTES = 64 << 10
SILENCE_S = 60.0
"""A transfer may take long, but may not stand still for longer than this."""

BROKEN = (
    OSError,
    ssl.SSLError,
    h11.RemoteProtocolError,
    anyio.BrokenResourceError,
    anyio.BusyResourceError,
    anyio.ClosedResourceError,
    anyio.EndOfStream,
)
"""What a stream or a stranger's HTTP may raise."""


class Request(Struct, frozen=True):
    """`target` is the path, which holds the token."""

    method: str
    target: Secret
    headers: Headers
    body: Body | None = None


class Reply(Struct, frozen=True):
    status: int
    data: bytes


class Connection:
    """`prefix` and `headers` are what a proxy wants to see with each request."""

    def __init__(
        self, stream: ByteStream, prefix: str = "", headers: Headers = (), silence_s: float = SILENCE_S
    ) -> None:
        self._stream = stream
        self._prefix = prefix
        self._headers = headers
        self._silence_s = silence_s
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        self._sent = False

    async def ask(self, request: Request, limit: int, wait_s: float) -> Reply | Trouble:
        """`wait_s` is how long the server may be silent once all is sent."""
        try:
            head = self._send_head(request)
        except h11.LocalProtocolError as error:
            return NetworkDown(f"this cannot be asked for: {error}")
        patience = anyio.CancelScope()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._send, head, request.body, wait_s, patience)
            outcome = await self._receive(limit, wait_s, patience)
            # Its last piece is on its way: cut off, the connection could not be used again.
            if not isinstance(outcome, Reply) or self._http.our_state is not h11.DONE:
                tasks.cancel_scope.cancel()
        return outcome

    def make_ready(self) -> bool:
        """Whether another request may follow: both sides have said all, and nothing that nobody asked for."""
        done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        # h11 counts as said what it gave us to send.
        if not self._sent or not done or self._http.trailing_data != (b"", False):
            return False
        self._http.start_next_cycle()
        self._sent = False
        return True

    @property
    def is_quiet(self) -> bool:
        """False once the server closed an idle connection, or said something on it."""
        sock = self._stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - no database here
        if sock.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return not poll.poll(0) and not self._holds_unread()

    async def close(self) -> None:
        # Nothing is waited for. Who closes several and is cancelled would otherwise stop at the first.
        with anyio.CancelScope(shield=True):
            await anyio.aclose_forcefully(self._stream)

    def _holds_unread(self) -> bool:
        """What came together with the last answer is decrypted only when somebody reads on."""
        tls = self._stream.extra(TLSAttribute.ssl_object, None)  # noqa: S610 - no database here
        if tls is None:
            return False
        try:
            tls.read(1)
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError:
            pass
        return True

    def _send_head(self, request: Request) -> bytes:
        target = f"{self._prefix}{request.target.reveal()}"
        event = h11.Request(method=request.method, target=target, headers=[*request.headers, *self._headers])
        return self._http.send(event) or b""

    async def _send(self, head: bytes, body: Body | None, wait_s: float, patience: anyio.CancelScope) -> None:
        """Whatever breaks here breaks the reading, too, unless an answer was there already: that one counts."""
        try:
            data = head
            for piece in body or ():
                if len(data) + len(piece) > PIECE_BYTES:
                    await self._write(data)
                    data = b""
                data += self._http.send(h11.Data(piece)) or b""
            await self._write(data + (self._http.send(h11.EndOfMessage()) or b""))
            self._sent = True
        except TimeoutError:
            patience.cancel()
        except BROKEN:
            pass
        patience.deadline = anyio.current_time() + wait_s

    async def _write(self, data: bytes) -> None:
        with anyio.fail_after(self._silence_s):
            await self._stream.send(data)

    async def _receive(self, limit: int, wait_s: float, patience: anyio.CancelScope) -> Reply | Trouble:
        try:
            with patience:
                return await self._read(limit, wait_s, patience)
        except BROKEN as error:
            return NetworkDown(why_unreachable(error), maybe_done=True)
        return NetworkDown("no answer came in time", maybe_done=True)

    async def _read(self, limit: int, wait_s: float, patience: anyio.CancelScope) -> Reply | Trouble:
        status, data = 0, bytearray()
        while True:
            event: Any = self._http.next_event()
            if event is h11.NEED_DATA:
                received = await self._next_bytes()
                if not received and not status:
                    return NetworkDown("the connection was closed without an answer", maybe_done=True)
                self._http.receive_data(received)
                if self._sent:
                    patience.deadline = anyio.current_time() + wait_s
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                data += event.data
                if len(data) > limit:
                    return TooBig(f"more than {limit // 1_000_000} MB came", maybe_done=True)
            elif isinstance(event, h11.EndOfMessage):
                return Reply(status, bytes(data))

    async def _next_bytes(self) -> bytes:
        try:
            return await self._stream.receive()
        except anyio.EndOfStream:
            return b""
