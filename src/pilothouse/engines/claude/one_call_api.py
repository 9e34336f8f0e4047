"""A Messages API on loopback whose model calls one tool, and then has nothing more to say."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

MAX_REQUEST_BYTES = 8 * 1024 * 1024
_USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}
_CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_proof", "name": "Bash", "input": {}}
_INPUT = json.dumps({"command": "touch gate-is-open", "description": "Proof"})
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


@asynccontextmanager
async def serving_one_call() -> AsyncIterator[str]:
    """Its address. It ends with the block."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, _serve)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - a socket's
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


async def _serve(client: SocketStream) -> None:
    try:
        async with client:
            body = await _read(client)
            await client.send(_HEAD + render(body))
    except (anyio.BrokenResourceError, anyio.EndOfStream, ValueError):
        pass  # whoever asks for anything else, or goes away, gets nothing


async def _read(client: SocketStream) -> bytes:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += await client.receive()
        if len(raw) > MAX_REQUEST_BYTES:
            raise ValueError("a request without an end")
    head, _, body = raw.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    while len(body) < min(length, MAX_REQUEST_BYTES):
        body += await client.receive()
    return body


def render(body: bytes) -> bytes:
    """The call; once it has its result, a last word."""
    done = b'"tool_result"' in body
    model = json.loads(body).get("model", "") if body else ""
    begun: dict[str, Any] = {"type": "text", "text": ""} if done else _CALL
    delta = (
        {"type": "text_delta", "text": "."} if done else {"type": "input_json_delta", "partial_json": _INPUT}
    )
    message: dict[str, Any] = {
        "id": "msg_proof",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    stop = {"stop_reason": "end_turn" if done else "tool_use", "stop_sequence": None}
    events: list[tuple[str, dict[str, Any]]] = [
        (
            "message_start",
            {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": _USAGE}},
        ),
        ("content_block_start", {"index": 0, "content_block": begun}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": _USAGE}),
        ("message_stop", {}),
    ]
    return b"".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode() for name, fields in events
    )
