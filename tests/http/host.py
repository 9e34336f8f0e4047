"""A host that counts who comes, and a net on which every address leads to it.

Whatever the guard lets through arrives here, so that "nobody came" means that nothing was fetched. No test needs the
real port 443, nor a public address.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio
import httpcore2
from anyio.abc import ByteStream
from anyio.streams.tls import TLSListener

from pilothouse.http.allowlist import Hosts
from pilothouse.http.fetch import Fetcher
from pilothouse.http.pinned import real_net

CDN = "cdn.discordapp.com"
MEDIA = "media.discordapp.net"
PUBLIC = "162.159.130.233"
LIMIT = 1 << 20

Reply = Callable[[ByteStream], Awaitable[None]]


def saying(*pieces: bytes) -> Reply:
    """Sends these bytes, and closes."""

    async def reply(stream: ByteStream) -> None:
        for piece in pieces:
            await stream.send(piece)

    return reply


def answering(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> Reply:
    length = b"Content-Length: %d" % len(body)
    head = b"\r\n".join([b"HTTP/1.1 " + status, *(headers or (length,)), b"", b""])
    return saying(head + body)


class Host:
    """`heads` are the requests that came, as far as they were read; `came` counts connections, also silent ones."""

    def __init__(self, port: int, reply: Reply) -> None:
        self.port = port
        self.reply = reply
        self.came = 0
        self.heads: list[bytes] = []

    async def serve(self, stream: ByteStream) -> None:
        self.came += 1
        async with stream:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    head += await stream.receive()
                    if not head.startswith(b"G"):
                        return  # TLS, of which a plain host understands nothing
                self.heads.append(head)
                await self.reply(stream)
            except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass  # whoever came went away again


class Net(httpcore2.AsyncNetworkBackend):
    """Every address is the host's; `reached` says which ones were meant. Those in `dead` answer nobody."""

    def __init__(self, port: int, dead: Sequence[str] = ()) -> None:
        self.reached: list[tuple[str, int]] = []
        self._port = port
        self._dead = dead

    # pyrefly: ignore [missing-override-decorator]
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.reached.append((host, port))
        if host in self._dead:
            raise httpcore2.ConnectError("nobody there")
        return await real_net().connect_tcp("127.0.0.1", self._port, timeout)


class Names:
    """A name server that gives its answers in turn, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.asked: list[str] = []
        self._answers = answers

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self._answers[min(len(self.asked), len(self._answers)) - 1]


@asynccontextmanager
async def open_host(reply: Reply, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Host]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    host = Host(listener.extra(anyio.abc.SocketAttribute.local_port), reply)
    serving = TLSListener(listener, tls, standard_compatible=False) if tls else listener
    async with serving, anyio.create_task_group() as group:
        group.start_soon(serving.serve, host.serve)
        yield host
        group.cancel_scope.cancel()


def plain_fetcher(host: Host, timeout_s: float = 20.0) -> Fetcher:
    """From a configured server without TLS, as tests of channels use one."""
    return Fetcher(Hosts([CDN, MEDIA], f"http://127.0.0.1:{host.port}"), timeout_s=timeout_s)
