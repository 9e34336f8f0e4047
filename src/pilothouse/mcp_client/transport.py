"""The two ways to a server: a program with pipes, and streamable HTTP. Each message has a bound.

The SDK reports most failures as "connection closed"; what really happened is noted in a `Fault`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from pilothouse.core.engine import ProcessStart
from pilothouse.core.mcp import McpServer
from pilothouse.processes import InputFailed, Launcher, Process, ProcessLimits, SpawnFailed

MOST_BYTES = 16_000_000
"""One message of a server."""
PROSE_CHARS = 200
WAIT_S = 30.0
TOO_LONG = f"It sent a message of more than {MOST_BYTES // 1_000_000} MB, so the connection was closed."
ENDED = "Its program ended with code {code}.{said}"
PROSE = " It printed what is no MCP: “{words}”."
COMPRESSED = "It sent a compressed answer, which was not asked for."

Streams = tuple[Any, Any]
ToSession = MemoryObjectSendStream[SessionMessage | Exception]


class Fault:
    """A failure on the way to a server. `ended` is set when the connection cannot be used any more."""

    def __init__(self) -> None:
        self.problem = ""
        self.prose = ""
        self.status = 0
        self.needs_login = False
        self.ended = anyio.Event()

    def note(self, problem: str) -> None:
        """Keep the first problem: later ones follow from it."""
        self.problem = self.problem or problem
        self.ended.set()


@asynccontextmanager
async def open_stdio(launcher: Launcher, start: ProcessStart, fault: Fault) -> AsyncIterator[Streams]:
    """Start the program and speak to it; on leaving, end it with all its descendants."""
    try:
        async with launcher.open(start, ProcessLimits(max_line_bytes=MOST_BYTES)) as process:
            to_session, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
            async with to_session, from_server, to_server, from_session, anyio.create_task_group() as tasks:
                tasks.start_soon(_read, process, to_session, fault)
                tasks.start_soon(_write, process, from_session)
                yield from_server, to_server
                tasks.cancel_scope.cancel()
    except SpawnFailed as error:
        fault.note(str(error))
        raise


async def _read(process: Process, to_session: ToSession, fault: Fault) -> None:
    async with to_session:  # the session sees the end
        try:
            async for line in process.lines():
                if line.cut:
                    fault.note(TOO_LONG)
                    return
                await _forward(line.data, to_session, fault)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return
        code = await process.wait()
        tail = process.stderr_tail().strip()[-PROSE_CHARS:]
        said = PROSE.format(words=fault.prose) if fault.prose else f" It wrote: “{tail}”." if tail else ""
        fault.note(ENDED.format(code=code, said=said))


async def _forward(data: bytes, to_session: ToSession, fault: Fault) -> None:
    """Pass on one message. A line that is none is skipped, as some programs greet."""
    try:
        message = jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValueError:
        fault.prose = fault.prose or data[:PROSE_CHARS].decode("utf-8", "replace").strip()
    else:
        await to_session.send(SessionMessage(message))


async def _write(process: Process, from_session: MemoryObjectReceiveStream[SessionMessage]) -> None:
    try:
        async for one in from_session:
            await process.write_line(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode())
    except InputFailed:
        process.close_input()  # its end is noticed by the reader


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, up to `MOST_BYTES`."""

    def __init__(self, whole: httpx2.AsyncByteStream, fault: Fault) -> None:
        self._whole = whole
        self._fault = fault

    # pyrefly: ignore [missing-override-decorator]
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._whole:
            size += len(piece)
            if size > MOST_BYTES:
                self._fault.note(TOO_LONG)
                raise httpx2.StreamError(TOO_LONG)
            yield piece

    # pyrefly: ignore [missing-override-decorator]
    async def aclose(self) -> None:
        await self._whole.aclose()


class _Client(httpx2.AsyncClient):
    """Notes why a request failed."""

    fault: Fault

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, request: httpx2.Request, **how: Any) -> httpx2.Response:
        try:
            return await super().send(request, **how)
        except httpx2.HTTPError as error:
            self.fault.note(f"{request.url.host} cannot be reached: {error or type(error).__name__}.")
            raise


def _bound(fault: Fault) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Bound every answer, those of a login too. An event stream has a bound for each event instead."""

    async def look(response: httpx2.Response) -> None:
        fault.status = response.status_code
        if response.headers.get("content-encoding", "identity") != "identity":
            fault.note(COMPRESSED)
            await response.aclose()
            raise httpx2.StreamError(COMPRESSED)
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if not is_stream and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, fault)

    return look


@asynccontextmanager
async def open_http(
    server: McpServer, fault: Fault, auth: httpx2.Auth | None = None
) -> AsyncIterator[Streams]:
    headers = {**server.headers, "Accept-Encoding": "identity"}
    # Requests and calls have limits; a question to a person has none.
    timeout = httpx2.Timeout(WAIT_S, read=None)
    hooks = {"response": [_bound(fault)]}
    async with _Client(headers=headers, timeout=timeout, auth=auth, event_hooks=hooks) as client:
        client.fault = fault
        async with streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams:
            yield streams
