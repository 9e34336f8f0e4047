"""The only way out of a jail with `network = "model"`: one socket per jail, and a CONNECT proxy behind it.

Rules: nothing is read of what is tunnelled, and nothing is kept back: bytes go on as they come. A host that is not allowed
is asked about, or refused. A name is resolved here, and never leads to this machine, unless the name is allowed as that.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, ByteStream, SocketStream

from pilothouse.isolation.hosts import (
    AllowedHost,
    Target,
    is_forbidden_address,
    is_loopback,
    parse_target,
    spellings,
)

MAX_HEAD_BYTES = 65536
MAX_CONNECTIONS = 128
HEAD_S = 30.0
CONNECT_S = 30.0
CLOSE_S = 5.0
PIECE_BYTES = 65536
BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)

_FOREIGN = {4: "192.0.2.1", 6: "2001:db8::1"}
"""Addresses that no machine has."""

AskHost = Callable[[Target], Awaitable[bool]]
"""Asks people whether a host may be reached."""


async def refuse_unknown(target: Target) -> bool:
    return False


class Proxy:
    """`note` hears of every host that was refused."""

    def __init__(
        self,
        allowed: Sequence[AllowedHost],
        note: Callable[[Target], None],
        ask: AskHost = refuse_unknown,
    ) -> None:
        self._allowed = allowed
        self._note = note
        self._ask = ask
        self._open = 0

    async def handle(self, client: SocketStream) -> None:
        """Serve one connection. One too many is closed: the gateway's open files are few."""
        async with client:
            if self._open >= MAX_CONNECTIONS:
                return
            self._open += 1
            try:
                with suppress(*BROKEN, TimeoutError):
                    await self._serve(client)
            finally:
                self._open -= 1

    async def _serve(self, client: ByteStream) -> None:
        with anyio.fail_after(HEAD_S):
            head, rest = await _read_head(client)
        first, _, fields = head.partition(b"\r\n")
        try:
            method, address, version = first.decode("latin-1").split(" ")
            tunnel = method == "CONNECT"
            target = parse_target(address) if tunnel else _target_of(address)
        except ValueError:
            await client.send(_answer(400, "Bad Request", "This proxy takes CONNECT and http:// addresses."))
            return
        if not await self._may(target):
            self._note(target)
            await client.send(_answer(403, "Forbidden", refusal_text(target)))
            return
        try:
            upstream = await connect(target)
        except (OSError, TimeoutError) as error:
            await client.send(_answer(502, "Bad Gateway", f"{target} cannot be reached: {error}."))
            return
        async with upstream:
            if tunnel:
                await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                await upstream.send(_origin_form(f"{method} {_path_of(address)} {version}", fields))
            if rest:
                await upstream.send(rest)
            await join(client, upstream)

    async def _may(self, target: Target) -> bool:
        return any(one.covers(target) for one in self._allowed) or await self._ask(target)


def refusal_text(target: Target) -> str:
    return f"Pilothouse's jail does not let {target} pass. The operator may add it to allow_hosts."


async def connect(target: Target) -> ByteStream:
    """Connect to a host. Raises `OSError` for a name that leads to this machine."""
    with anyio.fail_after(CONNECT_S):
        found = await anyio.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
        addresses = usable(target.host, [str(row[4][0]) for row in found])
        if not addresses:
            raise OSError("its name leads to this machine, or to a cloud's metadata")
        return await anyio.connect_tcp(addresses[0], target.port)


def usable(host: str, addresses: Sequence[str]) -> list[str]:
    """Leave out where a name may not lead. An address of this machine that was allowed as such says itself where it leads."""
    if is_loopback(host):
        return list(addresses)
    return [one for one in addresses if not is_forbidden_address(one) and (one == host or not is_own(one))]


def is_own(address: str) -> bool:
    """Tell whether an address is one of this machine. Where programs may listen on foreign ones, that is not known."""
    return any(_can_listen(str(one)) and not _can_listen(_FOREIGN[one.version]) for one in spellings(address))


def _can_listen(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.bind((address, 0))
    except OSError:
        return False
    return True


async def join(one: ByteStream, other: ByteStream) -> None:
    """Copy both ways until both ends are through."""
    through = anyio.Event()

    async def send() -> None:
        await _copy(one, other)
        through.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await _copy(other, one)
        # The server is through: a client that keeps its end open would keep this connection for ever.
        with anyio.move_on_after(CLOSE_S):
            await through.wait()
        tasks.cancel_scope.cancel()


async def _copy(source: ByteReceiveStream, target: ByteStream | ByteSendStream) -> None:
    with suppress(*BROKEN):
        while True:
            try:
                piece = await source.receive(PIECE_BYTES)
            except anyio.EndOfStream:
                break
            await target.send(piece)
        if isinstance(target, ByteStream):
            await target.send_eof()


async def _read_head(client: ByteReceiveStream) -> tuple[bytes, bytes]:
    """Return the head of a request, with its end, and what came behind it. Raises `OSError` for one that is too long."""
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        if len(data) > MAX_HEAD_BYTES:
            raise OSError("the head of the request is too long")
        data += await client.receive(PIECE_BYTES)
    return data[: end + 4], data[end + 4 :]


def _target_of(address: str) -> Target:
    """Return the host of an `http://` address. Raises `ValueError`."""
    scheme, _, rest = address.partition("://")
    if scheme.lower() != "http":
        raise ValueError("no http:// address")
    return parse_target(rest.split("/", 1)[0].rpartition("@")[2], 80)


def _path_of(address: str) -> str:
    return "/" + address.partition("://")[2].partition("/")[2]


def _origin_form(first: str, fields: bytes) -> bytes:
    """Return the request as its server expects it. The connection ends with the answer: the next request is judged anew."""
    dropped = (b"proxy-", b"connection:", b"keep-alive:")
    kept = [line for line in fields.split(b"\r\n") if line and not line.lower().startswith(dropped)]
    return b"\r\n".join([first.encode("latin-1"), *kept, b"Connection: close", b"", b""])


def _answer(status: int, reason: str, text: str) -> bytes:
    body = text.encode()
    fields = ["Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "Connection: close"]
    return b"\r\n".join([f"HTTP/1.1 {status} {reason}".encode(), *map(str.encode, fields), b"", body])
