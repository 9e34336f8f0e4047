"""`tool.call`: a tool of the session's engine, or output that a shell command left behind.

A call of an engine's tool is a run without a model: it is a message, judged by the same rules as a call of the agent, and a
confirm asks where they ask. Its `final` is the tool's output.
"""

from __future__ import annotations

import re
from typing import Any

import anyio
import msgspec
from msgspec import Struct

from pilothouse.channels.client_runs import Said
from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.rpc.connection import Connection, Feed, ToolWait
from pilothouse.channels.rpc.params import ToolCallParams, ToolCallResult
from pilothouse.channels.rpc.protocol import BUSY, INTERNAL, USER_CANCELLED, unsupported
from pilothouse.channels.rpc.run_requests import check_idle, open_session
from pilothouse.channels.stdio_server import Respond
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import BlobHash

CACHE_BYTES = 64 * 1024
MATCHES = 50
MOST_WAITING = 16
"""Calls without a session run one after another; each that waits takes a place of the client's requests."""
CACHE_TOOLS = ("tool_output_cache", "tool_output_cache_grep")
BLOB = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"[\w.:/-]{1,200}")


class _Lookup(Struct, frozen=True):
    """Arguments of the tools that read kept output."""

    ref: str = ""
    offset: int = 0
    limit: int = 2000
    pattern: str = ""


async def call_tool(client: Connection, params: ToolCallParams, respond: Respond) -> None:
    ref = params.arguments.get("ref")
    if params.name in CACHE_TOOLS and isinstance(ref, str) and BLOB.fullmatch(ref):
        await respond(ToolCallResult(True, await _read_kept(client, params.name, params.arguments)))
    else:
        await _call_engine(client, params, respond)


async def _call_engine(client: Connection, params: ToolCallParams, respond: Respond) -> None:
    if not NAME.fullmatch(params.name):
        raise RequestError(INVALID_PARAMS, f"{params.name[:100]!r} is no name of a tool.")
    if params.session_id is None and client.calling.statistics().tasks_waiting >= MOST_WAITING:
        raise RequestError(BUSY, f"{MOST_WAITING} calls wait already. Wait for one, or name a session.")
    async with client.calling if params.session_id is None else anyio.Lock():
        feed = await _open(client, params.session_id)
        line = await _tool_line(client, feed, params)
        async with feed.lock:
            await check_idle(client, feed)
            receipt = await client.runs.start(feed, Said("", engine_line=line))
            if receipt.message_id is None:
                raise RequestError(INTERNAL, receipt.text or "The call was refused.")
            run_id = receipt.message_id
            wait = client.calls[run_id] = ToolWait(anyio.Event())
            await client.status(feed, run_id, "running")
        try:
            await wait.done.wait()
        finally:
            del client.calls[run_id]
    if wait.problem is not None:
        cancelled = wait.problem == ""
        text = "The call was not allowed, or was cancelled." if cancelled else wait.problem
        raise RequestError(USER_CANCELLED if cancelled else INTERNAL, text)
    await respond(ToolCallResult(wait.is_ok, wait.text, run_id, feed.session_id))


async def _open(client: Connection, session_id: str | None) -> Feed:
    """Open the named session; without one, that of the client's own calls."""
    if session_id is not None:
        return await open_session(client, session_id)
    feed = await open_session(client, client.call_session)
    client.call_session = feed.session_id
    return feed


async def _tool_line(client: Connection, feed: Feed, params: ToolCallParams) -> str:
    engine = await feed.query("engine", conversation=feed.conversation)
    word = client.setup.tool_lines.get(engine, "")
    if not word:
        reason = f"The engine {engine} calls its tools for its model alone: {params.name!r} cannot be called."
        raise unsupported("tool.call", reason)
    return f"{word} {params.name} {msgspec.json.encode(params.arguments).decode()}"


async def _read_kept(client: Connection, name: str, arguments: dict[str, Any]) -> str:
    """Read output that the store keeps: all of it, or the lines with a pattern."""
    try:
        given = msgspec.convert(arguments, _Lookup)
    except msgspec.ValidationError as error:
        raise RequestError(INVALID_PARAMS, f"The parameters are wrong: `arguments`: {error}") from error
    if given.offset < 0 or given.limit < 0:
        raise RequestError(
            INVALID_PARAMS, "The parameters are wrong: `offset` and `limit` must be 0 or more."
        )
    if name == CACHE_TOOLS[1] and not given.pattern:
        raise RequestError(INVALID_PARAMS, "The parameters are wrong: `arguments.pattern` must not be empty.")
    try:
        data = await client.host.blobs.get(BlobHash(given.ref))
    except PilothouseError as error:
        raise RequestError(INVALID_PARAMS, f"No output is kept under {given.ref!r} any more.") from error
    lines = data.decode("utf-8", "replace").split("\n")
    found = (
        _matches(lines, given.pattern) if given.pattern else lines[given.offset : given.offset + given.limit]
    )
    return "\n".join(found)[:CACHE_BYTES]


def _matches(lines: list[str], words: str) -> list[str]:
    found = [f"{number}: {line[:1000]}" for number, line in enumerate(lines, 1) if words in line]
    return found[:MATCHES]
