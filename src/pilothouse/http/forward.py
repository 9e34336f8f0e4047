"""Forwards requests to one configured server, and changes their headers. Import this only where it is used.

Each connection has one of its own to the server. Requests are read, changed and sent on; answers are not read: their bytes go
back as they come. Rules: a request goes to that server alone, whatever its target and headers say, and below the path of its
URL; one whose headers `change` refuses is answered with 401, and its body is not read; when either side closes, so does the
other. `HTTPS_PROXY` and `NO_PROXY` count, and certificates as in `http/client.py`.
"""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import h11
from anyio.abc import ByteStream
from anyio.streams.tls import TLSStream

Headers = list[tuple[bytes, bytes]]
Change = Callable[[Headers], Headers | None]
"""Returns the headers as the server gets them; None for a request that may not pass."""

CONNECT_S = 15.0
PIECE_BYTES = 64 << 10
MAX_BODY_BYTES = 64 << 20
MAX_HEAD_BYTES = 16 << 10
MAX_CONNECTIONS = 32
WRONG_KEY = "This key is not the one that Pilothouse gave to this jail."
WRONG_PATH = "Only paths below the model's own address are served here."
_DROPPED = {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"upgrade"}
_DROPPED |= {b"host", b"expect", b"content-length", b"transfer-encoding"}
_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)


class Forward:
    """`url` names the server; programs send its path too, and what is below it. Raises `ValueError` for a bad one."""

    def __init__(self, url: str, change: Change) -> None:
        self._server = urlsplit(url)
        if self._server.scheme not in ("http", "https") or not self._server.hostname:
            raise ValueError(f"{url!r} is no http:// or https:// address")
        self._host = self._server.netloc.rpartition("@")[2].encode("latin-1", "replace")
        self._path = self._server.path.rstrip("/").encode("latin-1", "replace")
        self._change = change
        self._open = 0

    async def handle(self, client: ByteStream) -> None:
        """Serve one connection, which may bring many requests. One too many is closed."""
        async with client:
            if self._open >= MAX_CONNECTIONS:
                return
            self._open += 1
            try:
                with suppress(*_BROKEN, h11.RemoteProtocolError):
                    await self._serve(client)
            finally:
                self._open -= 1

    async def _serve(self, client: ByteStream) -> None:
        requests = _Requests(client)
        if (first := await self._next(requests, client)) is None:
            return
        try:
            server = await connect(self._server)
        except (OSError, TimeoutError, ValueError) as error:  # a proxy's address may be wrong
            await client.send(
                _answer(502, "Bad Gateway", f"{self._host.decode()} cannot be reached: {error}.")
            )
            return
        async with server, anyio.create_task_group() as tasks:
            tasks.start_soon(_copy, server, client, tasks.cancel_scope)
            with suppress(*_BROKEN, h11.RemoteProtocolError):
                await server.send(first)
                while (request := await self._next(requests, client)) is not None:
                    await server.send(request)
            tasks.cancel_scope.cancel()

    async def _next(self, requests: _Requests, client: ByteStream) -> bytes | None:
        """Return the next request as the server gets it; None if there is none, or it may not pass."""
        if (head := await requests.head()) is None:
            return None
        headers = self._change([(name, value) for name, value in head.headers if name not in _DROPPED])
        if headers is None:
            await client.send(_answer(401, "Unauthorized", WRONG_KEY))
            return None
        if not self._is_below(target := head.target if head.target.startswith(b"/") else b"/"):
            await client.send(_answer(403, "Forbidden", WRONG_PATH))
            return None
        if (body := await requests.body()) is None:
            await client.send(_answer(413, "Content Too Large", "Too large."))
            return None
        framed = [(b"Host", self._host), *headers]
        if body or head.method not in (b"GET", b"HEAD"):
            framed.append((b"Content-Length", b"%d" % len(body)))
        lines = [b"%s %s HTTP/1.1" % (head.method, target), *(b"%s: %s" % one for one in framed)]
        return b"\r\n".join([*lines, b"", body])

    def _is_below(self, target: bytes) -> bool:
        """Tell whether a target is the path of the URL, or below it. A step upwards is none, however it is written."""
        path = target.partition(b"?")[0]
        steps = unquote(path.decode("latin-1")).replace("\\", "/").split("/")
        return ".." not in steps and (path == self._path or path.startswith(self._path + b"/"))


class _Requests:
    """Reads the requests of a connection."""

    def __init__(self, client: ByteStream) -> None:
        self._client = client
        self._http = h11.Connection(h11.SERVER)

    async def head(self) -> h11.Request | None:
        """Return the head of the next request; None at the end."""
        rest, _ = self._http.trailing_data
        self._http = h11.Connection(h11.SERVER)
        if rest:
            self._http.receive_data(rest)
        head = await self._event()
        return head if isinstance(head, h11.Request) else None

    async def body(self) -> bytes | None:
        """Return the body of the request; None if it is too large."""
        body = bytearray()
        while isinstance(event := await self._event(), h11.Data):
            body += event.data
            if len(body) > MAX_BODY_BYTES:
                return None
        return bytes(body)

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                told = h11.InformationalResponse(status_code=100, headers=[])
                await self._client.send(self._http.send(told) or b"")
            try:
                self._http.receive_data(await self._client.receive(PIECE_BYTES))
            except anyio.EndOfStream:
                self._http.receive_data(b"")
        return event


async def _copy(source: ByteStream, target: ByteStream, both: anyio.CancelScope) -> None:
    with suppress(*_BROKEN):
        while True:
            await target.send(await source.receive(PIECE_BYTES))
    both.cancel()


async def connect(server: SplitResult) -> ByteStream:
    """Connect to a server, through the machine's proxy if it has one for it. Raises `OSError` or `TimeoutError`."""
    host, is_tls = server.hostname or "", server.scheme == "https"
    port = server.port or (443 if is_tls else 80)
    proxy = urlsplit(getproxies().get("https", "")) if is_tls and not proxy_bypass(host) else None
    with anyio.fail_after(CONNECT_S):
        if proxy and proxy.hostname:
            stream: ByteStream = await _connect_by(proxy, host, port)
        else:
            stream = await anyio.connect_tcp(host, port)
        if not is_tls:
            return stream
        try:
            return await TLSStream.wrap(
                stream, hostname=host, ssl_context=_tls_context(), standard_compatible=False
            )
        except (ssl.SSLError, *_BROKEN) as error:
            await stream.aclose()
            raise OSError(str(error) or "it closed the connection") from error


async def _connect_by(proxy: SplitResult, host: str, port: int) -> ByteStream:
    stream = await anyio.connect_tcp(proxy.hostname or "", proxy.port or 80)
    login = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}".encode()
    lines = [f"CONNECT {host}:{port} HTTP/1.1".encode(), f"Host: {host}:{port}".encode()]
    lines += [b"Proxy-Authorization: Basic " + b64encode(login)] if proxy.username else []
    try:
        await stream.send(b"\r\n".join([*lines, b"", b""]))
        head = b""
        while not head.endswith(b"\r\n\r\n") and len(head) < MAX_HEAD_BYTES:
            head += await stream.receive(1)
    except _BROKEN as error:
        await stream.aclose()
        raise OSError(f"the proxy {proxy.hostname} closed the connection") from error
    if head.split(b" ", 2)[1:2] != [b"200"]:
        await stream.aclose()
        raise OSError(f"the proxy {proxy.hostname} refused: {head.splitlines()[0].decode('latin-1')}")
    return stream


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    import httpx2  # heavy

    context = httpx2.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _answer(status: int, reason: str, text: str) -> bytes:
    body = text.encode()
    lines = [
        f"HTTP/1.1 {status} {reason}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body
