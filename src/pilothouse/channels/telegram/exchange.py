"""One request to a Bot API server, one bounded answer.

Telegram wants the token in the address. The HTTP library logs no address and keeps none in its errors; an address is
made in one place here, right before it is handed over, and whatever a server says back is searched for the token.

Importing this imports the HTTP library: do it where a client is opened, and nowhere else.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any
from urllib.parse import quote

import anyio
import httpcore2
import msgspec
from httpcore2 import AsyncConnectionPool
from msgspec import Raw, Struct, field

from pilothouse.channels.reach import why_unreachable
from pilothouse.channels.telegram.address import Address
from pilothouse.channels.telegram.bodies import Body, Form, Json
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
from pilothouse.channels.telegram.way import open_pool

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
    httpcore2.ConnectError,
    httpcore2.ConnectTimeout,
    httpcore2.PoolTimeout,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
    httpcore2.LocalProtocolError,
)
_BROKEN = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError, OSError)
"""Of these nobody knows whether the server did what we asked."""

_HEADERS = ((b"Accept-Encoding", b"identity"), (b"User-Agent", b"pilothouse"))


class Answer(Struct, frozen=True):
    ok: bool
    result: Raw = field(default_factory=Raw)
    error_code: int = 0
    description: str = ""
    parameters: dict[str, Any] | None = None


_answers = msgspec.json.Decoder(Answer)


class Exchange:
    def __init__(self, pool: AsyncConnectionPool, endpoint: Endpoint) -> None:
        self._pool = pool
        self._endpoint = endpoint
        self._calls = endpoint.calls
        self._files = endpoint.files

    async def call(
        self, method: str, params: Mapping[str, Any], uploads: Mapping[str, Upload], wait_s: float
    ) -> Raw | Trouble:
        """`wait_s` is how long the server may take to begin its answer: a long poll may take long."""
        if not self._endpoint.token_is_plausible:
            return Unauthorized("the bot token has not the shape of one: 123456:ABC…, as @BotFather gave it")
        try:
            body = Form(params, uploads) if uploads else Json(params)
        except UnicodeEncodeError:
            return ParseError("the text holds half a character (a lone surrogate), which cannot be sent")
        whole_s = wait_s + (UPLOAD_S if uploads else CALL_S)
        answered = await self._send(self._calls, method, body, ANSWER_BYTES, wait_s, whole_s)
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
        answered = await self._send(self._files, quote(file_path), None, limit, SILENCE_S, UPLOAD_S)
        if isinstance(answered, Trouble) or answered[0] == 200:
            return answered if isinstance(answered, Trouble) else answered[1]
        answer = self._read(*answered)
        return answer if isinstance(answer, Trouble) else self._foreign(*answered)

    async def _send(
        self, server: Address, path: str, body: Body | None, limit: int, wait_s: float, whole_s: float
    ) -> tuple[int, bytes] | Trouble:
        try:
            with anyio.fail_after(whole_s):
                async with aclosing(await self._ask(server, path, body, max(wait_s, CALL_S))) as response:
                    data = await _read_bounded(response, limit)
                    return data if isinstance(data, Trouble) else (response.status, data)
        except _NEVER_SENT as error:
            return NetworkDown(self._words(error))
        except _BROKEN as error:
            return NetworkDown(self._words(error), maybe_done=True)

    async def _ask(self, server: Address, path: str, body: Body | None, wait_s: float) -> httpcore2.Response:
        headers = [(b"Host", server.authority.encode()), *_HEADERS]
        if server.login:
            headers.append((b"Authorization", b"Basic " + b64encode(b":".join(server.login))))
        if body is not None:
            headers += [
                (b"Content-Type", body.media_type.encode()),
                (b"Content-Length", str(body.length).encode()),
            ]
        timeouts = {"connect": CONNECT_S, "read": wait_s, "write": SILENCE_S, "pool": CALL_S}
        return await self._pool.handle_async_request(
            httpcore2.Request(
                "POST" if body is not None else "GET",
                httpcore2.URL(
                    scheme=server.scheme,
                    host=server.host,
                    port=server.port,
                    target=f"{server.path}/bot{self._endpoint.token.reveal()}/{path}",
                ),
                headers=headers,
                content=body,
                extensions={"timeout": timeouts},
            )
        )

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
        text = f"{self._endpoint.shown} answered {status} with {begin!r}: is api_base a Bot API server?"
        return NotTelegram(self._hide(text), maybe_done=200 <= status < 300)

    def _words(self, error: Exception) -> str:
        return self._hide(f"{self._endpoint.shown}: {why_unreachable(error)}")

    def _hide(self, text: str) -> str:
        return text.replace(self._endpoint.token.reveal(), HIDDEN)


@asynccontextmanager
async def open_exchange(endpoint: Endpoint) -> AsyncIterator[Exchange]:
    async with open_pool(endpoint.calls, endpoint.proxy) as pool:
        yield Exchange(pool, endpoint)


async def _read_bounded(response: httpcore2.Response, limit: int) -> bytes | Trouble:
    data = bytearray()
    async with aclosing(response.aiter_stream()) as pieces:
        async for piece in pieces:
            data += piece
            if len(data) > limit:
                return TooBig(f"more than {limit >> 20} MB came", maybe_done=True)
    return bytes(data)
