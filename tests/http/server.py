"""A server that answers what a test wants, byte by byte, and counts its visitors; and a fresh process as its client."""

import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

CERTIFICATES = Path(__file__).parent / "certificates"
AUTHORITY = CERTIFICATES / "loopback-authority.pem"
DECIDING = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")
"""The variables that decide how a server is reached, and which certificates are trusted."""


def answer(data: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = (b"HTTP/1.1 " + status, b"Content-Length: %d" % len(data), *headers)
    return b"".join(line + b"\r\n" for line in lines) + b"\r\n" + data


def identity() -> ssl.SSLContext:
    """The certificate of 127.0.0.1."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "loopback.pem")
    return context


class Visits:
    """`heads` are all requests, by the connection that brought them; `open` counts the connections of this moment."""

    def __init__(self, port: int, scheme: str) -> None:
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.heads: list[list[bytes]] = []
        self.open = 0
        self.changed = anyio.Event()

    async def until_open(self, number: int) -> None:
        with anyio.fail_after(60):
            while self.open != number:
                await self.changed.wait()

    def count(self, step: int) -> None:
        self.open += step
        self.changed.set()
        self.changed = anyio.Event()


Serve = Callable[[ByteStream, Visits], Awaitable[None]]


@asynccontextmanager
async def serving(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[Visits]:
    async def greet(stream: ByteStream) -> None:
        visits.count(1)
        try:
            async with stream:
                await serve(stream, visits)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
        finally:
            visits.count(-1)

    tcp = await anyio.create_tcp_listener(local_host="127.0.0.1")
    visits = Visits(tcp.extra(SocketAttribute.local_port), "https" if tls else "http")
    listener = TLSListener(tcp, tls, standard_compatible=False) if tls else tcp
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, greet)
        yield visits
        tasks.cancel_scope.cancel()


def saying(*replies: bytes, then_close: bool = False) -> Serve:
    """Answer each request with the next reply, and every further one with the last."""

    async def serve(stream: ByteStream, visits: Visits) -> None:
        heads: list[bytes] = []
        visits.heads.append(heads)
        while True:
            heads.append(await read_request(stream))
            await stream.send(replies[min(sum(map(len, visits.heads)), len(replies)) - 1])
            if then_close:
                return

    return serve


async def read_request(stream: ByteStream) -> bytes:
    """Read a request whose body, if any, has a length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        (int(line.split()[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")),
        0,
    )
    while len(body) < length:
        body += await stream.receive()
    return head + b"\r\n\r\n" + body


@asynccontextmanager
async def tunnelling(
    reply: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n",
) -> AsyncIterator[tuple[Visits, list[str]]]:
    """A proxy that connects to any server it is asked for, and the requests it got."""
    asked: list[str] = []

    async def serve(stream: ByteStream, visits: Visits) -> None:
        head = (await read_request(stream)).decode()
        asked.append(head)
        await stream.send(reply)
        if b" 200 " not in reply:
            return
        host, _, port = head.split()[1].rpartition(":")
        async with await anyio.connect_tcp(host, int(port)) as far, anyio.create_task_group() as tasks:
            tasks.start_soon(_pass_on, stream, far)
            await _pass_on(far, stream)
            tasks.cancel_scope.cancel()

    async with serving(serve) as visits:
        yield visits, asked


async def _pass_on(source: ByteStream, target: ByteStream) -> None:
    try:
        async for piece in source:
            await target.send(piece)
    except anyio.BrokenResourceError:
        pass


async def said_with(environment: Mapping[str, str], program: str) -> str:
    """Return what the program prints in a process with this environment, and nothing else in it that decides."""
    clean = {name: value for name, value in os.environ.items() if name.lower() not in DECIDING}
    done = await anyio.run_process([sys.executable, "-c", program], env={**clean, **environment})
    return done.stdout.decode().strip()
