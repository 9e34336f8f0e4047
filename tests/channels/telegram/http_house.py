"""A server that says what a test wants, byte by byte, and counts who came; and a process of its own that asks it."""

import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener
from typing_extensions import override

from pilothouse.channels.telegram.address import Server, parse_server
from pilothouse.channels.telegram.bodies import Body
from pilothouse.channels.telegram.connection import Connection, Request
from pilothouse.core.secret import Secret

ME = b'{"ok":true,"result":{"id":1,"is_bot":true,"first_name":"b","username":"b_bot"}}'
DECIDING = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")
"""What in the environment decides how a server is reached, and whom we believe."""


def answer(data: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = (b"HTTP/1.1 " + status, b"Content-Length: %d" % len(data), *headers)
    return b"".join(line + b"\r\n" for line in lines) + b"\r\n" + data


def request(body: Body | None = None) -> Request:
    length = [(b"Content-Length", str(body.length).encode())] if body else []
    return Request("POST" if body else "GET", Secret("/x"), [(b"Host", b"test"), *length], body)


class Visits:
    """`heads` of all requests, by the connection that brought them; `open` is how many are here now."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heads: list[list[bytes]] = []
        self.open = 0
        self.most = 0
        self.changed = anyio.Event()

    @property
    def server(self) -> Server:
        return parse_server(f"http://127.0.0.1:{self.port}")

    async def until_open(self, number: int) -> None:
        with anyio.fail_after(20):
            while self.open != number:
                await self.changed.wait()

    def count(self, step: int) -> None:
        self.open += step
        self.most = max(self.most, self.open)
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
    visits = Visits(tcp.extra(SocketAttribute.local_port))
    listener = TLSListener(tcp, tls, standard_compatible=False) if tls else tcp
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, greet)
        yield visits
        tasks.cancel_scope.cancel()


def saying(*replies: bytes, then_close: bool = False) -> Serve:
    """Each request gets the next reply, and the last one again and again."""

    async def serve(stream: ByteStream, visits: Visits) -> None:
        heads: list[bytes] = []
        visits.heads.append(heads)
        while True:
            heads.append(await read_head(stream))
            await stream.send(replies[min(sum(map(len, visits.heads)), len(replies)) - 1])
            if then_close:
                return

    return serve


async def read_head(stream: ByteStream) -> bytes:
    """Up to the body of a request that has none."""
    head = b""
    while b"\r\n\r\n" not in head:
        head += await stream.receive()
    return head


class Told:
    """A stream of given pieces that begin once something was sent, and then end: for parsing alone."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]
        self._asked = anyio.Event()
        self.sent = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await self._asked.wait()
        if not self._pieces:
            raise anyio.EndOfStream
        piece = self._pieces.pop(0)
        if len(piece) > max_bytes:
            self._pieces.insert(0, piece[max_bytes:])
        return piece[:max_bytes]

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        self.sent += item
        self._asked.set()


class Stuck(Told):
    """Takes the first piece of a request, and no more."""

    @override
    async def send(self, item: bytes) -> None:
        if self.sent:
            await anyio.sleep_forever()
        await super().send(item)

    @override
    async def receive(self, max_bytes: int = 65536) -> bytes:
        if not self._pieces:
            await anyio.sleep_forever()
        return await super().receive(max_bytes)


async def connect(visits: Visits) -> Connection:
    return Connection(await anyio.connect_tcp("127.0.0.1", visits.port))


async def said_with(environment: Mapping[str, str], program: str) -> str:
    """What it prints in a process with this environment, and nothing else in it that decides."""
    clean = {name: value for name, value in os.environ.items() if name.lower() not in DECIDING}
    done = await anyio.run_process([sys.executable, "-c", program], env={**clean, **environment})
    return done.stdout.decode().strip()


async def get_me_with(environment: Mapping[str, str], base: str) -> str:
    """As a gateway with this environment would."""
    return await said_with(
        environment,
        f"""
import anyio
from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.endpoint import Endpoint
from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret
async def main():
    async with open_client(Endpoint(Secret("1:x"), {base!r})) as client:
        print(await client.get_me())
try:
    anyio.run(main)
except ConfigError as error:
    print(error)
""",
    )
