"""One request to a Bot API server, one bounded answer.

Telegram wants the token in the address. That is made in one place here, as a secret which only the connection reveals;
and every trouble leaves by one way, `_hidden`, on which the token is taken out of whatever a server said back.

Importing this imports h11: do it where a client is opened, and nowhere else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import anyio
import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from pilothouse.channels.telegram.address import Server, basic
from pilothouse.channels.telegram.bodies import Body, Form, Json
from pilothouse.channels.telegram.connection import SILENCE_S, Reply, Request
from pilothouse.channels.telegram.endpoint import Endpoint
from pilothouse.channels.telegram.pool import Pool, open_pool
from pilothouse.channels.telegram.shapes import Upload
from pilothouse.channels.telegram.trouble import (
    TEXT_CHARS,
    NetworkDown,
    NotTelegram,
    ParseError,
    RetryAfter,
    ServerDown,
    TooBig,
    Trouble,
    Unauthorized,
    classify,
)
from pilothouse.channels.telegram.way import WANTS_LOGIN, Way, find_way
from pilothouse.core.channel import SLOW_LINE
from pilothouse.core.secret import Secret

T = TypeVar("T")

HIDDEN = "[token]"
QUOTED_CHARS = 60

ANSWER_BYTES = 32 << 20
"""A hundred updates of the largest kind stay far below."""
CALL_S = 30.0
"""How long the server may take to begin an answer, and to end it, besides what a file takes on a slow line."""

_SEARCHED_BYTES = 4096
_HEADERS = ((b"Accept-Encoding", b"identity"), (b"User-Agent", b"pilothouse"))


class Answer(Struct, frozen=True):
    ok: bool
    result: Raw = field(default_factory=Raw)
    error_code: int = 0
    description: str = ""
    parameters: dict[str, Any] | None = None


_answers = msgspec.json.Decoder(Answer)


class Exchange:
    def __init__(self, pool: Pool, endpoint: Endpoint, way: Way) -> None:
        self._pool = pool
        self._endpoint = endpoint
        self._way = way
        self._calls = endpoint.calls
        self._files = endpoint.files

    async def call(
        self, method: str, params: Mapping[str, Any], uploads: Mapping[str, Upload], wait_s: float
    ) -> Raw | Trouble:
        """`wait_s` is how long the server may take to begin its answer: a long poll may take long.

        So may a file. What we sent may still be in this machine's buffers, and a server of one's own answers when
        Telegram has it; given up too soon, it would stand there twice."""
        return self._hidden(await self._call(method, params, uploads, wait_s))

    async def fetch(self, file_path: str, limit: int) -> bytes | Trouble:
        """The bytes of a file that `getFile` named."""
        return self._hidden(await self._fetch(file_path, limit))

    async def _call(
        self, method: str, params: Mapping[str, Any], uploads: Mapping[str, Upload], wait_s: float
    ) -> Raw | Trouble:
        if not self._endpoint.token_is_plausible:
            return Unauthorized("the bot token has not the shape of one: 123456:ABC…, as @BotFather gave it")
        try:
            body = Form(params, uploads) if uploads else Json(params)
        except UnicodeEncodeError:
            return ParseError("the text holds half a character (a lone surrogate), which cannot be sent")
        if uploads:
            wait_s += body.length / SLOW_LINE
        answered = await self._send(self._calls, method, body, ANSWER_BYTES, wait_s, wait_s + CALL_S)
        if isinstance(answered, Trouble):
            return answered
        answer = self._read(self._calls, answered)
        return answer.result if isinstance(answer, Answer) else answer

    async def _fetch(self, file_path: str, limit: int) -> bytes | Trouble:
        if file_path.startswith("/") or ".." in file_path.split("/"):
            return NotTelegram(
                f"the server names a file by the path {self._quote(file_path)}, which is no path below file_base; "
                "a Bot API server that runs with --local keeps files to itself: run it without"
            )
        whole_s = CALL_S + limit / SLOW_LINE
        answered = await self._send(self._files, quote(file_path), None, limit, SILENCE_S, whole_s)
        if isinstance(answered, Trouble):
            return answered
        if answered.status == 200:
            return answered.data
        answer = self._read(self._files, answered)
        return answer if isinstance(answer, Trouble) else self._foreign(self._files, answered)

    async def _send(
        self, server: Server, path: str, body: Body | None, limit: int, wait_s: float, whole_s: float
    ) -> Reply | Trouble:
        request = Request(
            "POST" if body is not None else "GET",
            Secret(f"{server.path}/bot{self._endpoint.token.reveal()}/{path}"),
            _headers(server, body),
            body,
        )
        answer: Reply | Trouble = NetworkDown("no answer came in time", maybe_done=True)
        with anyio.move_on_after(whole_s):
            answer = await self._pool.ask(server, request, limit, wait_s)
        if isinstance(answer, NetworkDown):
            return replace(answer, text=f"{self._name(server)}: {answer.text}")
        return answer

    def _read(self, server: Server, reply: Reply) -> Answer | Trouble:
        try:
            answer = _answers.decode(reply.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._foreign(server, reply)
        if answer.ok:
            return answer
        return classify(answer.error_code or reply.status, answer.description, answer.parameters or {})

    def _foreign(self, server: Server, reply: Reply) -> Trouble:
        """No answer of the Bot API: a proxy's error page, or another service altogether."""
        status, name = reply.status, self._name(server)
        if status >= 500:
            return ServerDown(f"{name} answered {status}", maybe_done=True, status=status)
        match status:
            case 407:
                return NetworkDown(f"{name}: {WANTS_LOGIN}")
            case 413:
                return TooBig(f"{name}, or a proxy before it, takes nothing as large as this")
            case 429:
                return RetryAfter(f"{name}, or a proxy before it, wants us to wait")
        begin = self._quote(reply.data[:_SEARCHED_BYTES].decode("utf-8", "replace"))
        text = f"{name} answered {status} with {begin}: {self._doubt(server)}"
        return NotTelegram(text, maybe_done=200 <= status < 300)

    def _name(self, server: Server) -> str:
        """Whom we asked, as people wrote it, and who stands between us."""
        shown = self._endpoint.shown if server is self._calls else self._endpoint.files_shown
        proxy = self._way.proxy_to(server)
        return f"{shown} (by way of the proxy {proxy.host_port})" if proxy else shown

    def _doubt(self, server: Server) -> str:
        if server is self._calls or not self._endpoint.file_base:
            return "is api_base a Bot API server?"
        return "is file_base where a Bot API server has its files?"

    def _hidden(self, outcome: T | Trouble) -> T | Trouble:
        if isinstance(outcome, Trouble):
            return replace(outcome, text=self._hide(outcome.text)[:TEXT_CHARS])
        return outcome

    def _quote(self, said: str) -> str:
        """Its beginning. It is cut last: half a token would not be found."""
        return repr(self._hide(said)[:QUOTED_CHARS])

    def _hide(self, text: str) -> str:
        """Some servers write a colon as it stands in addresses."""
        token = self._endpoint.token.reveal()
        return text.replace(token, HIDDEN).replace(quote(token), HIDDEN) if token else text


@asynccontextmanager
async def open_exchange(endpoint: Endpoint) -> AsyncIterator[Exchange]:
    way = find_way(endpoint)
    async with open_pool(way) as pool:
        yield Exchange(pool, endpoint, way)


def _headers(server: Server, body: Body | None) -> list[tuple[bytes, bytes]]:
    headers = [(b"Host", server.authority.encode()), *_HEADERS]
    if server.login:
        headers.append((b"Authorization", basic(server.login)))
    if body is not None:
        headers += [
            (b"Content-Type", body.media_type.encode()),
            (b"Content-Length", str(body.length).encode()),
        ]
    return headers
