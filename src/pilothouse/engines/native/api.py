"""One request to a model: our call in, pieces of text while it speaks, and its whole reply or a `Problem`.

A reply counts only if the vendor said that it is whole. The network and the vendor never make it raise.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from pilothouse.engines.native.dialects.dialect import Dialect, Reply, StreamReader, read_error
from pilothouse.engines.native.failures import (
    Problem,
    explain_error,
    explain_page,
    explain_transport,
    read_retry_after,
)
from pilothouse.engines.native.messages import ModelCall, Piece
from pilothouse.engines.native.providers import Target
from pilothouse.engines.native.sse import EventTooLong, SseReader

if TYPE_CHECKING:
    from pilothouse.http.client import HttpClient, Stream

MAX_ERROR_BYTES = 256 * 1024
MAX_REPLY_BYTES = 64 * 1024 * 1024
END = b"[DONE]"

Hear = Callable[[Piece], Awaitable[None]]


class ModelApi:
    def __init__(self, http: HttpClient, target: Target, *, wait_s: float, now: Callable[[], float]) -> None:
        self.target = target
        self._http = http
        self._dialect: Dialect = target.make_dialect()
        self._wait_s = wait_s
        self._now = now

    @property
    def has_search(self) -> bool:
        return self._dialect.has_search

    def encode(self, call: ModelCall) -> bytes:
        return msgspec.json.encode(self._dialect.request(call))

    async def ask(self, request: bytes, hear: Hear) -> Reply | Problem:
        """Send an encoded request; `hear` is given each piece."""
        from pilothouse.http.client import Failed

        target = self.target
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            **target.headers,
            **self._dialect.headers(target.key.reveal()),
        }
        url = target.base_url + self._dialect.path
        async with self._http.stream("POST", url, request, headers=headers, wait_s=self._wait_s) as answer:
            if isinstance(answer, Failed):
                late = answer.kind == "late"
                why = "did not answer in time" if late else "could not be reached"
                return explain_transport(target, why)
            if answer.status != 200 or "text/event-stream" not in answer.headers.get("content-type", ""):
                return await self._explain(answer)
            return await self._read(answer.pieces, self._dialect.reader(), hear)

    async def _read(self, pieces: AsyncIterator[bytes], reader: StreamReader, hear: Hear) -> Reply | Problem:
        events, size = SseReader(), 0
        try:
            async for portion in pieces:
                size += len(portion)
                if size > MAX_REPLY_BYTES:
                    raise EventTooLong
                for data in events.feed(portion):
                    for piece in reader.feed(_object(data)):
                        await hear(piece)
                    if reader.error is not None:
                        return explain_error(reader.error, self.target)
        except EventTooLong:
            return explain_transport(self.target, "sent a reply that is too long")
        if not reader.done:
            return explain_transport(self.target, "broke off in the middle of a reply")
        return reader.reply()

    async def _explain(self, answer: Stream) -> Problem:
        body = bytearray()
        async for portion in answer.pieces:
            body += portion
            if len(body) > MAX_ERROR_BYTES:
                break
        try:
            value = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return explain_page(self.target, answer.status, body.decode("utf-8", "replace"))
        if answer.status == 200:
            return explain_page(self.target, answer.status, body.decode("utf-8", "replace"))
        wait_s = read_retry_after(answer.headers, self._now())
        return explain_error(read_error(answer.status, value), self.target, wait_s)


def _object(data: bytes) -> dict[str, object]:
    """Decode an event; a dialect ignores an empty object, as it does what it does not know."""
    if data == END:
        return {}
    try:
        value = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
