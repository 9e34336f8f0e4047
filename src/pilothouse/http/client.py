"""The HTTP client for servers that the owner configured, on httpx2. Import this only where a client is opened.

A request returns an answer with a bounded body, or a `Failed` that says how far it came. The network and the server
never make it raise, it is never repeated, and redirects are not followed. Certificates and proxies follow the library's
rules: `SSL_CERT_FILE` and `SSL_CERT_DIR`, else the machine's certificates; the given proxy, else `HTTP_PROXY`,
`HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import anyio
import httpx2
from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        return method


CONNECT_S = 15.0
WRITE_S = 60.0
"""The longest wait for one piece of a body to be accepted. A whole body has no limit of its own."""
POOL_S = 30.0
"""The longest wait for a connection while all are in use."""
LIMITS = httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=30.0)
HEADERS = {"Accept-Encoding": "identity", "User-Agent": "pilothouse"}

SECRET = "(secret)"  # noqa: S105
"""The placeholder for `secret` in a URL. httpx2 writes URLs into logs and errors; the real path goes to the server only."""

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)


class File(Struct, frozen=True):
    name: str
    media_type: str
    data: bytes


class Form(Struct, frozen=True):
    """A multipart form. Its files are sent in pieces and not copied."""

    fields: Mapping[str, bytes]
    files: Mapping[str, File]


class Reply(Struct, frozen=True):
    status: int
    data: bytes


class Stream(Struct, frozen=True):
    """An answer whose body is read as it comes; it ends early if the connection breaks. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class Failed(Struct, frozen=True):
    """A request without a whole answer.

    `sent` is true if the server may have received all of the request, so that a repeat may act twice. `cause` is the
    library's error; it names no secret, but its text may quote the server."""

    kind: Literal["unreachable", "proxy", "late", "broken", "too_big"]
    sent: bool
    cause: Exception | None = None


class HttpClient:
    """Any number of requests may run at once; connections are kept for the next ones."""

    def __init__(self, library: httpx2.AsyncClient) -> None:
        self._library = library

    async def ask(
        self,
        method: str,
        url: str,
        content: bytes | Form = b"",
        *,
        headers: Mapping[str, str] | None = None,
        secret: Secret | None = None,
        limit: int,
        wait_s: float,
        whole_s: float,
    ) -> Reply | Failed:
        """Send one request and read at most `limit` bytes of its answer.

        The server may be silent for `wait_s` once the request is sent; `whole_s` bounds everything together. A login in
        the URL is sent as Basic authentication. `secret` replaces `SECRET` in the URL's path as it is."""
        try:
            address = httpx2.URL(url)
            request = self._build(method, address, content, headers or {}, secret, wait_s)
        except httpx2.InvalidURL as error:
            return Failed("unreachable", sent=False, cause=error)
        body = _Body(request)
        request.stream = body
        auth = (address.username, address.password) if address.userinfo else None
        with anyio.move_on_after(whole_s):
            return await self._send(request, body, auth, limit)
        return Failed("late", sent=body.sent)

    @asynccontextmanager
    async def follow(
        self, url: str, *, headers: Mapping[str, str], wait_s: float
    ) -> AsyncIterator[AsyncIterator[bytes] | Reply | Failed]:
        """Open a stream that the server ends when it likes, and yield its pieces as they come.

        Another answer than 200 is a `Reply` without its body. A stream that breaks, or is silent for `wait_s`, ends."""
        request = self._build("GET", httpx2.URL(url), b"", headers, None, wait_s)
        try:
            response = await self._library.send(request, stream=True)
        except (httpx2.TransportError, OSError) as error:
            yield Failed("unreachable", sent=False, cause=error)
            return
        try:
            yield _pieces(response) if response.status_code == 200 else Reply(response.status_code, b"")
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, content: bytes, *, headers: Mapping[str, str], wait_s: float
    ) -> AsyncIterator[Stream | Failed]:
        """Send one request and yield its answer, whatever its status. The server may be silent for `wait_s`."""
        try:
            request = self._build(method, httpx2.URL(url), content, headers, None, wait_s)
            response = await self._library.send(request, stream=True)
        except httpx2.TimeoutException as error:
            yield Failed("late", sent=True, cause=error)
            return
        except (httpx2.TransportError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            yield Failed("unreachable", sent=True, cause=error)
            return
        try:
            told = {name.lower(): value for name, value in response.headers.items()}
            async with aclosing(_pieces(response)) as pieces:
                yield Stream(response.status_code, told, pieces)
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    def _build(
        self,
        method: str,
        url: httpx2.URL,
        content: bytes | Form,
        headers: Mapping[str, str],
        secret: Secret | None,
        wait_s: float,
    ) -> httpx2.Request:
        form = content if isinstance(content, Form) else None
        target = url.raw_path.replace(SECRET.encode(), secret.reveal().encode() if secret else b"")
        return self._library.build_request(
            method,
            url.copy_with(username=None, password=None),
            content=None if isinstance(content, Form) else content or None,
            data=dict(form.fields) if form else None,
            files={name: _encode(file) for name, file in form.files.items()} if form else None,
            headers=headers,
            timeout=httpx2.Timeout(connect=CONNECT_S, read=wait_s, write=WRITE_S, pool=POOL_S),
            extensions={"target": target},
        )

    async def _send(
        self, request: httpx2.Request, body: _Body, auth: tuple[str, str] | None, limit: int
    ) -> Reply | Failed:
        if self._library.is_closed:  # the library would raise a plain RuntimeError
            return Failed("unreachable", sent=False)
        try:
            response = await self._library.send(request, auth=auth, stream=True)
            try:
                return await _read(response, limit)
            finally:
                with anyio.CancelScope(shield=True):
                    await response.aclose()
        except httpx2.ProxyError as error:
            return Failed("proxy", sent=False, cause=error)
        except (
            httpx2.ConnectError,
            httpx2.ConnectTimeout,
            httpx2.PoolTimeout,
            httpx2.UnsupportedProtocol,
            httpx2.LocalProtocolError,
            UnicodeError,  # a host name that no name server can have
        ) as error:
            return Failed("unreachable", sent=False, cause=error)
        except httpx2.TimeoutException as error:
            return Failed("late", sent=body.sent, cause=error)
        except (httpx2.TransportError, OSError) as error:
            return Failed("broken", sent=body.sent, cause=error)


@asynccontextmanager
async def open_http(proxy: str = "", *, direct: bool = False) -> AsyncIterator[HttpClient]:
    """Open a client; `proxy` overrides the environment's, and a `direct` one uses none: its servers are on this machine.

    Raises `ConfigError` for settings that cannot be used."""
    try:
        library = httpx2.AsyncClient(
            verify=httpx2.create_ssl_context(),
            proxy=proxy or None,
            limits=LIMITS,
            headers=HEADERS,
            trust_env=not direct,
        )
    except OSError as error:
        why = error.strerror or error
        raise ConfigError(
            f"The trusted certificates cannot be read: {why}. See SSL_CERT_FILE and SSL_CERT_DIR."
        ) from None
    except (ValueError, httpx2.InvalidURL, ImportError):  # whose texts may hold a login
        raise ConfigError(_proxy_problem(proxy)) from None
    async with library:
        yield HttpClient(library)


class _Body(httpx2.AsyncByteStream):
    """A request's body that counts the bytes not yet handed over."""

    def __init__(self, request: httpx2.Request) -> None:
        assert isinstance(request.stream, httpx2.AsyncByteStream), "a body of bytes, or a form"
        self._stream = request.stream
        self._left = int(request.headers.get("Content-Length", 0))

    @property
    def sent(self) -> bool:
        """True once the last piece is handed over, even if it has not left this machine."""
        return self._left <= 0

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self._left -= len(piece)
            yield piece


async def _pieces(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(response.aiter_raw()) as pieces:
            async for piece in pieces:
                yield piece
    except (httpx2.TransportError, OSError):
        return


async def _read(response: httpx2.Response, limit: int) -> Reply | Failed:
    data = bytearray()
    async with aclosing(response.aiter_raw()) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > limit:
                return Failed("too_big", sent=True)
    return Reply(response.status_code, bytes(data))


def _encode(file: File) -> tuple[str, BytesIO, str]:
    # The type becomes a header: an engine or a person may have made it up.
    media_type = file.media_type if _MEDIA_TYPE.fullmatch(file.media_type) else "application/octet-stream"
    return file.name or "file", BytesIO(file.data), media_type


def _proxy_problem(proxy: str) -> str:
    where = "`proxy`" if proxy else "A proxy of the environment (HTTP_PROXY, HTTPS_PROXY or ALL_PROXY)"
    return f"{where} cannot be used: write http://HOST:PORT or https://HOST:PORT. SOCKS is not supported."
