"""Requests to one server of OpenCode on loopback. Each is bounded in time; none raises.

A server accepts connections before it can answer, and never answers a request of that moment, so the health check is
asked again and again in short intervals.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import anyio
import msgspec
from msgspec import Struct

from pilothouse.core.outcome import Failure
from pilothouse.engines.opencode.launch import USER
from pilothouse.engines.opencode.program import judge_server

if TYPE_CHECKING:
    from pilothouse.http.client import HttpClient

MAX_BYTES = 64 * 1024 * 1024
HEALTH_S = 2.0
PAUSE_S = 0.1
QUIET_S = 45.0
"""The server says something at least every ten seconds."""
HISTORY = 50
"""Messages that are read again after a reconnect; a turn seldom makes more."""

_encoder = msgspec.json.Encoder()


class Answer(Struct, frozen=True):
    """The status 0 is no answer at all; then `value` says why, and `sent` is true if the server may have got the request."""

    status: int
    value: Any = None
    data: bytes = b""
    sent: bool = True

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Api:
    """`within_s` bounds a request that opens something; others get a part of it."""

    def __init__(self, http: HttpClient, address: str, password: str, within_s: float) -> None:
        self._http = http
        self._address = address.rstrip("/")
        login = b64encode(f"{USER}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        self._within_s = within_s

    @property
    def stream(self) -> tuple[str, Mapping[str, str], float]:
        """The address, the headers and the longest silence of the event stream."""
        return f"{self._address}/global/event", self._headers, QUIET_S

    async def get(self, path: str, directory: str = "", **query: str) -> Answer:
        return await self._ask("GET", path, None, {"directory": directory, **query})

    async def post(
        self, path: str, body: Any = None, directory: str = "", within_s: float | None = None
    ) -> Answer:
        return await self._ask("POST", path, body, {"directory": directory}, within_s)

    async def patch(self, path: str, body: Any, directory: str) -> Answer:
        return await self._ask("PATCH", path, body, {"directory": directory})

    async def check(self) -> Failure | None:
        """Wait until the server answers; say why it cannot be used."""
        while True:
            answer = await self._ask("GET", "/global/health", None, {}, HEALTH_S)
            if answer.status:
                return judge_server(answer.status, answer.value, answer.data)
            await anyio.sleep(PAUSE_S)

    async def _ask(
        self, method: str, path: str, body: Any, query: Mapping[str, str], within_s: float | None = None
    ) -> Answer:
        from pilothouse.http.client import Reply

        asked = urlencode({key: value for key, value in query.items() if value})
        url = f"{self._address}{path}{'?' if asked else ''}{asked}"
        content = b"" if body is None else _encoder.encode(body)
        within_s = within_s or self._within_s
        reply = await self._http.ask(
            method, url, content, headers=self._headers, limit=MAX_BYTES, wait_s=within_s, whole_s=within_s
        )
        if not isinstance(reply, Reply):
            why = f"no answer within {within_s:g} s" if reply.kind == "late" else f"connection {reply.kind}"
            return Answer(0, why, sent=reply.sent)
        return Answer(reply.status, _decoded(reply.data), reply.data)


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data) if data else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
