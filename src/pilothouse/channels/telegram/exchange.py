"""One request to a Bot API server, one bounded answer. The token is put into the path below everything that logs.

Telegram wants the token in the address, and HTTP libraries log addresses. So the library is given `/bot*/getMe`, and
only the last layer before the socket writes the token in: no log line, exception or repr can hold it.

Importing this imports the HTTP library: do it where a client is opened, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
import httpx2
import msgspec
from msgspec import Raw, Struct, field

from pilothouse.channels.reach import why_unreachable
from pilothouse.channels.telegram.endpoint import Endpoint
from pilothouse.channels.telegram.shapes import Upload
from pilothouse.channels.telegram.trouble import (
    NetworkDown,
    NotTelegram,
    ParseError,
    ServerDown,
    TooBig,
    Trouble,
    Unauthorized,
    classify,
)
from pilothouse.core.errors import ConfigError
from pilothouse.core.secret import Secret

PLACEHOLDER = "/bot*/"
HIDDEN = "[token]"

ANSWER_BYTES = 32 << 20
"""A hundred updates of the largest kind stay far below."""
CALL_S = 30.0
UPLOAD_S = 600.0
"""50 MB over a slow line."""
CONNECT_S = 10.0
SILENCE_S = 60.0
"""A transfer may take long, but may not stand still for longer than this."""


_NEVER_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
)


class Answer(Struct, frozen=True):
    ok: bool
    result: Raw = field(default_factory=Raw)
    error_code: int = 0
    description: str = ""
    parameters: dict[str, Any] | None = None


_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_answers = msgspec.json.Decoder(Answer)


class Exchange:
    def __init__(self, http: httpx2.AsyncClient, endpoint: Endpoint) -> None:
        self._http = http
        self._endpoint = endpoint

    async def call(
        self, method: str, params: Mapping[str, Any], uploads: Mapping[str, Upload], wait_s: float
    ) -> Raw | Trouble:
        """`wait_s` is how long the server may take to begin its answer: a long poll may take long."""
        if not self._endpoint.token_is_plausible:
            return Unauthorized("the bot token has not the shape of one: 123456:ABC…, as @BotFather gave it")
        try:
            body = _form(params, uploads) if uploads else _json(params)
        except UnicodeEncodeError:
            return ParseError("the text holds half a character (a lone surrogate), which cannot be sent")
        url = f"{self._endpoint.calls}{PLACEHOLDER}{method}"
        whole_s = wait_s + (UPLOAD_S if uploads else CALL_S)
        answered = await self._send("POST", url, ANSWER_BYTES, wait_s, whole_s, body)
        if isinstance(answered, Trouble):
            return answered
        answer = self._read(*answered)
        return answer.result if isinstance(answer, Answer) else answer

    async def fetch(self, file_path: str, limit: int) -> bytes | Trouble:
        """The bytes of a file that `getFile` named."""
        if file_path.startswith("/") or ".." in file_path.split("/"):
            return NotTelegram(
                f"the server names a file by the path {file_path[:80]!r}, which is no path below file_base; "
                "a Bot API server that runs with --local keeps files to itself: run it without"
            )
        url = f"{self._endpoint.files}{PLACEHOLDER}{quote(file_path)}"
        answered = await self._send("GET", url, limit, SILENCE_S, UPLOAD_S, {})
        if isinstance(answered, Trouble) or answered[0] == 200:
            return answered if isinstance(answered, Trouble) else answered[1]
        answer = self._read(*answered)
        return answer if isinstance(answer, Trouble) else self._foreign(*answered)

    async def _send(
        self, verb: str, url: str, limit: int, wait_s: float, whole_s: float, body: Mapping[str, Any]
    ) -> tuple[int, bytes] | Trouble:
        timeout = httpx2.Timeout(SILENCE_S, connect=CONNECT_S, read=max(wait_s, CALL_S), pool=CALL_S)
        try:
            with anyio.fail_after(whole_s):
                async with self._http.stream(verb, url, timeout=timeout, **body) as response:
                    data = await _read_bounded(response, limit)
                    return data if isinstance(data, Trouble) else (response.status_code, data)
        except _NEVER_SENT as error:
            return NetworkDown(self._words(error))
        except (httpx2.HTTPError, TimeoutError) as error:
            return NetworkDown(self._words(error), maybe_done=True)

    def _read(self, status: int, data: bytes) -> Answer | Trouble:
        try:
            answer = _answers.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._foreign(status, data)
        if answer.ok:
            return answer
        return classify(answer.error_code or status, self._hide(answer.description), answer.parameters or {})

    def _foreign(self, status: int, data: bytes) -> Trouble:
        """No answer of the Bot API: a proxy's error page, or another service altogether."""
        if status >= 500:
            return ServerDown(f"the server answered {status}", maybe_done=True, status=status)
        begin = data[:60].decode("utf-8", "replace")
        text = f"{self._endpoint.api_base} answered {status} with {begin!r}: is api_base a Bot API server?"
        return NotTelegram(self._hide(text), maybe_done=200 <= status < 300)

    def _words(self, error: Exception) -> str:
        return self._hide(f"{self._endpoint.api_base}: {why_unreachable(error)}")

    def _hide(self, text: str) -> str:
        return text.replace(self._endpoint.token.reveal(), HIDDEN)


@asynccontextmanager
async def open_exchange(endpoint: Endpoint) -> AsyncIterator[Exchange]:
    try:
        inner = httpx2.AsyncHTTPTransport(
            proxy=endpoint.proxy or _proxy_from_environment(endpoint.api_base) or None,
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=30.0),
        )
    except (ValueError, ImportError) as error:
        raise ConfigError(f"The proxy {endpoint.proxy!r} cannot be used: {error}") from None
    headers = {"Accept-Encoding": "identity", "User-Agent": "pilothouse"}
    transport = Hiding(inner, endpoint.token)
    async with httpx2.AsyncClient(transport=transport, headers=headers, trust_env=False) as http:
        yield Exchange(http, endpoint)


class Hiding(httpx2.AsyncBaseTransport):
    """Writes the token into the path of a copy of the request, which nobody else gets to see."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, token: Secret) -> None:
        self._inner = inner
        self._token = token

    # pyrefly: ignore [missing-override-decorator]
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        real_path = request.url.raw_path.replace(
            PLACEHOLDER.encode(), f"/bot{self._token.reveal()}/".encode(), 1
        )
        real = httpx2.Request(
            request.method,
            request.url.copy_with(raw_path=real_path),
            headers=request.headers,
            stream=request.stream,
            extensions=request.extensions,
        )
        return await self._inner.handle_async_request(real)

    # pyrefly: ignore [missing-override-decorator]
    async def aclose(self) -> None:
        await self._inner.aclose()


async def _read_bounded(response: httpx2.Response, limit: int) -> bytes | Trouble:
    data = bytearray()
    async for piece in response.aiter_raw():
        data += piece
        if len(data) > limit:
            return TooBig(f"more than {limit >> 20} MB came", maybe_done=True)
    return bytes(data)


def _json(params: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": msgspec.json.encode(params), "headers": {"Content-Type": "application/json"}}


def _form(params: Mapping[str, Any], uploads: Mapping[str, Upload]) -> dict[str, Any]:
    """In a form every value that is not text is JSON. Files are read in pieces while they are sent."""
    fields = {
        name: value if isinstance(value, str) else msgspec.json.encode(value).decode()
        for name, value in params.items()
    }
    files = {name: (up.name, BytesIO(up.data), _media_type(up)) for name, up in uploads.items()}
    return {"data": fields, "files": files}


def _media_type(upload: Upload) -> str:
    """A type is a header: what an engine or a person made up must not break the request."""
    return upload.media_type if _MEDIA_TYPE.fullmatch(upload.media_type) else "application/octet-stream"


def _proxy_from_environment(base: str) -> str:
    """What `HTTPS_PROXY` and `NO_PROXY` say, as every other program here would read them."""
    parts = urlsplit(base)
    if proxy_bypass(parts.hostname or ""):
        return ""
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all") or ""
