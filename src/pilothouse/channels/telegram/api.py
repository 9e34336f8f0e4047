"""One call to a Bot API server: its address, its answer, and the trouble that a failure means.

Telegram wants the token in the address. It is handed to the HTTP client as a secret, and every trouble leaves through
`_hide_token`, which removes it from the text that a server sent back.

Importing this imports the HTTP library: do it only where a client is opened.
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

from pilothouse.channels.telegram.config import Endpoint
from pilothouse.channels.telegram.payload import FileBytes
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
from pilothouse.core.channel import MIN_BYTES_PER_S
from pilothouse.http.client import SECRET, Failed, File, Form, HttpClient, Reply, open_http
from pilothouse.http.unreachable import why_unreachable

T = TypeVar("T")

HIDDEN = "[token]"
QUOTED_CHARS = 60

ANSWER_BYTES = 32 << 20
"""The bound on an answer; a hundred updates of the largest kind stay far below."""
REST_S = 30.0
"""The time for an answer to arrive once it has begun."""
SILENCE_S = 60.0
"""The longest pause within a download."""
UPLOAD_TRIES = 3
WANTS_LOGIN = (
    "the proxy wants a login (407), or another one: write it into its address, http://NAME:PASSWORD@HOST:PORT"
)

_SEARCHED_BYTES = 4096


class Answer(Struct, frozen=True):
    """The Bot API's envelope around every result."""

    ok: bool
    result: Raw = field(default_factory=Raw)
    error_code: int = 0
    description: str = ""
    parameters: dict[str, Any] | None = None


_answers = msgspec.json.Decoder(Answer)


class Api:
    """Calls the methods of one bot at one server, and fetches its files."""

    def __init__(self, http: HttpClient, endpoint: Endpoint) -> None:
        self._http = http
        self._token = endpoint.token
        self._token_is_plausible = endpoint.token_is_plausible
        self._methods = f"{endpoint.api_base.rstrip('/')}/bot{SECRET}"
        self._files = f"{endpoint.files.rstrip('/')}/bot{SECRET}"
        proxy = f" (by way of the proxy {endpoint.proxy_shown})" if endpoint.proxy else ""
        self._shown = f"{endpoint.shown}{proxy}"
        self._files_shown = f"{endpoint.files_shown}{proxy}"
        self._has_file_base = bool(endpoint.file_base)

    async def call(
        self, method: str, params: Mapping[str, Any], uploads: Mapping[str, FileBytes], wait_s: float
    ) -> Raw | Trouble:
        """Call a method. `wait_s` is the time that the server may take to begin its answer.

        Uploads get more time by their size. They may still be in this machine's buffers when all seems sent, and a
        self-hosted server answers only when Telegram has them; a call that is given up too soon is sent twice."""
        return self._hide_token(await self._call(method, params, uploads, wait_s))

    async def fetch(self, file_path: str, limit: int) -> bytes | Trouble:
        """Fetch a file by the path that `getFile` returned."""
        return self._hide_token(await self._fetch(file_path, limit))

    async def _call(
        self, method: str, params: Mapping[str, Any], uploads: Mapping[str, FileBytes], wait_s: float
    ) -> Raw | Trouble:
        if not self._token_is_plausible:
            return Unauthorized(
                "the bot token does not look like one (123456:ABC…): copy it again from @BotFather"
            )
        try:
            content = _form(params, uploads) if uploads else msgspec.json.encode(params)
        except UnicodeEncodeError:
            return ParseError("the text holds half a character (a lone surrogate), which cannot be sent")
        wait_s += sum(len(upload.data) for upload in uploads.values()) / MIN_BYTES_PER_S
        reply = await self._post(method, content, wait_s)
        if isinstance(reply, Trouble):
            return reply
        answer = self._read(reply, self._shown)
        return answer.result if isinstance(answer, Answer) else answer

    async def _post(self, method: str, content: bytes | Form, wait_s: float) -> Reply | Trouble:
        """Send one call. An upload that breaks off is tried again: the server cannot have acted on a part of it.

        Some proxies refuse a large file by closing the connection, and their 413 is lost. So an upload that breaks off
        every time counts as too large; retried for ever, it would block its conversation."""
        until = anyio.current_time() + wait_s + REST_S
        for _ in range(UPLOAD_TRIES):
            reply = await self._http.ask(
                "POST",
                f"{self._methods}/{method}",
                content,
                headers=None if isinstance(content, Form) else {"Content-Type": "application/json"},
                secret=self._token,
                limit=ANSWER_BYTES,
                wait_s=wait_s,
                whole_s=until - anyio.current_time(),
            )
            if isinstance(reply, Reply):
                return reply
            broke_off = isinstance(content, Form) and not reply.sent and reply.kind in ("broken", "late")
            if not broke_off or anyio.current_time() >= until:
                return self._failure(reply, self._shown, ANSWER_BYTES)
        return TooBig(
            f"{self._shown} closed the connection {UPLOAD_TRIES} times during this upload; it, or a proxy before it, may accept no "
            "file as large as this"
        )

    async def _fetch(self, file_path: str, limit: int) -> bytes | Trouble:
        if file_path.startswith("/") or ".." in file_path.split("/"):
            return NotTelegram(
                f"the server names a file by the path {self._quote(file_path)}, which is no path below file_base; "
                "a Bot API server that runs with --local keeps files to itself: run it without"
            )
        reply = await self._http.ask(
            "GET",
            f"{self._files}/{quote(file_path)}",
            secret=self._token,
            limit=limit,
            wait_s=SILENCE_S,
            whole_s=REST_S + limit / MIN_BYTES_PER_S,
        )
        if isinstance(reply, Failed):
            return self._failure(reply, self._files_shown, limit)
        if reply.status == 200:
            return reply.data
        answer = self._read(reply, self._files_shown)
        return answer if isinstance(answer, Trouble) else self._not_an_answer(reply, self._files_shown)

    def _read(self, reply: Reply, shown: str) -> Answer | Trouble:
        try:
            answer = _answers.decode(reply.data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._not_an_answer(reply, shown)
        if answer.ok:
            return answer
        return classify(answer.error_code or reply.status, answer.description, answer.parameters or {})

    def _failure(self, failed: Failed, shown: str, limit: int) -> Trouble:
        match failed.kind:
            case "too_big":
                return TooBig(f"more than {limit // 1_000_000} MB came", maybe_done=failed.sent)
            case "late":
                why = "no answer came in time"
            case "proxy":
                refusal = str(failed.cause)
                why = WANTS_LOGIN if refusal.startswith("407") else f"the proxy opens no tunnel: {refusal}"
            case _:
                why = why_unreachable(failed.cause) if failed.cause else "the connection was cut off"
        return NetworkDown(f"{shown}: {why}", maybe_done=failed.sent)

    def _not_an_answer(self, reply: Reply, shown: str) -> Trouble:
        """Classify what is no answer of the Bot API: a proxy's error page, or another service altogether."""
        status = reply.status
        if status >= 500:
            return ServerDown(f"{shown} answered {status}", maybe_done=True)
        match status:
            case 407:
                return NetworkDown(f"{shown}: {WANTS_LOGIN}")
            case 413:
                return TooBig(f"{shown}, or a proxy before it, accepts nothing as large as this")
            case 429:
                return RetryAfter(f"{shown}, or a proxy before it, asks us to wait")
        begin = self._quote(reply.data[:_SEARCHED_BYTES].decode("utf-8", "replace"))
        setting = "file_base where a Bot API server has its files"
        if shown != self._files_shown or not self._has_file_base:
            setting = "api_base a Bot API server"
        return NotTelegram(f"{shown} answered {status} with {begin}: is {setting}?", 200 <= status < 300)

    def _hide_token(self, outcome: T | Trouble) -> T | Trouble:
        if isinstance(outcome, Trouble):
            return replace(outcome, text=self._hide(outcome.text)[:TEXT_CHARS])
        return outcome

    def _quote(self, said: str) -> str:
        """Quote the beginning. The cut comes last: half a token would not be found."""
        return repr(self._hide(said)[:QUOTED_CHARS])

    def _hide(self, text: str) -> str:
        """Hide the token, also with its colon percent-encoded, as some servers write it."""
        token = self._token.reveal()
        return text.replace(token, HIDDEN).replace(quote(token), HIDDEN) if token else text


@asynccontextmanager
async def open_api(endpoint: Endpoint) -> AsyncIterator[Api]:
    async with open_http(endpoint.proxy) as http:
        yield Api(http, endpoint)


def _form(params: Mapping[str, Any], uploads: Mapping[str, FileBytes]) -> Form:
    """Encode every value that is not text as JSON."""
    fields = {
        name: value.encode() if isinstance(value, str) else msgspec.json.encode(value)
        for name, value in params.items()
    }
    for upload in uploads.values():
        upload.name.encode()  # a name with half a character fails like such a text
    return Form(fields, {name: File(up.name, up.media_type, up.data) for name, up in uploads.items()})
