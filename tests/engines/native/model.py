"""A scripted model on loopback that speaks three dialects: Anthropic's Messages, OpenAI's Responses, chat completions.

A script is a function from a request to a reply. Every request is kept as its bytes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

CHUNK = 7
LONGEST_S = 60.0
DialectName = Literal["anthropic", "openai", "openrouter", "compatible"]


class Call(NamedTuple):
    name: str
    input: dict[str, Any]
    id: str = ""
    raw: str = ""
    """Arguments as they are sent, if they are not the input."""


class Reply(NamedTuple):
    """`stalls` sends everything but the end; `status` makes it an error with `text` as its message."""

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""
    status: int = 200
    code: str = "api_error"
    headers: dict[str, str] = {}  # noqa: RUF012 - a named tuple's default is never changed
    stalls: bool = False
    cut: int | None = None
    """Send only so many bytes of the stream."""
    page: str = ""
    """Send this page instead."""
    tokens: int = 10
    pause_s: float = 0.0
    """Between two events of the stream."""


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    data: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.data)

    @property
    def text(self) -> str:
        return self.data.decode()

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body.get("messages") or self.body["input"]

    @property
    def prompt(self) -> str:
        """The last text that is a person's."""
        found = [text for message in self.messages for text in _user_texts(message)]
        return found[-1] if found else ""

    @property
    def results(self) -> list[str]:
        """Results of calls after the last text of a person."""
        found: list[str] = []
        for message in self.messages:
            found = [] if _user_texts(message) else found + _results(message)
        return found


def _user_texts(message: dict[str, Any]) -> list[str]:
    if message.get("role") != "user":
        return []
    content = message["content"]
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [part["text"] for part in parts if part["type"] in ("text", "input_text")]


def _results(message: dict[str, Any]) -> list[str]:
    if message.get("type") == "function_call_output":
        return [json.dumps(message["output"])]
    if message.get("role") == "tool":
        return [message["content"]]
    content = message.get("content")
    parts = content if isinstance(content, list) else []
    return [json.dumps(part["content"]) for part in parts if part.get("type") == "tool_result"]


Script = Callable[[Request], Reply]


def in_order(*replies: Reply) -> Script:
    """Return a script that gives these replies, the last one for ever."""
    left = list(replies)
    return lambda _request: left.pop(0) if len(left) > 1 else left[0]


class ScriptedModel:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self.calls = 0
        model = self

        class Handler(_Handler):
            scripted = model

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def base_url(self, provider: str) -> str:
        return self.url if provider == "anthropic" else f"{self.url}/v1"


@contextmanager
def open_model(script: Script) -> Iterator[ScriptedModel]:
    model = ScriptedModel(script)
    thread = threading.Thread(target=model.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield model
    finally:
        model.closing.set()
        model.server.shutdown()
        thread.join()
        model.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    scripted: ScriptedModel

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, data)
        self.scripted.requests.append(request)
        if self.path not in PATHS:
            self.send_error(404)
            return
        reply = self.scripted.script(request)
        try:
            self._answer(request, reply)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _answer(self, request: Request, reply: Reply) -> None:
        if reply.page or reply.status != 200:
            error = {"error": {"type": reply.code, "code": reply.code, "message": reply.text}}
            body = (reply.page or json.dumps(error)).encode()
            self._begin(reply, "text/html" if reply.page else "application/json", len(body))
            self.wfile.write(body)
            return
        self._begin(reply, "text/event-stream; charset=utf-8", None)
        stream = render(request.path, reply, self._numbered(reply.calls))
        stream = stream[: reply.cut] if reply.cut is not None else stream
        for portion in stream.splitlines(keepends=True) if reply.pause_s else [stream]:
            self.wfile.write(portion)
            self.wfile.flush()
            time.sleep(reply.pause_s)
        if reply.stalls:
            self.scripted.closing.wait(LONGEST_S)

    def _begin(self, reply: Reply, media_type: str, length: int | None) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", media_type)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _numbered(self, calls: Sequence[Call]) -> list[Call]:
        numbered: list[Call] = []
        for call in calls:
            self.scripted.calls += 1
            numbered.append(call if call.id else call._replace(id=f"call_{self.scripted.calls}"))
        return numbered

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name  # pyrefly: ignore[missing-override-decorator]
        pass


def render(path: str, reply: Reply, calls: Sequence[Call]) -> bytes:
    """Return the stream of a reply, in the dialect of a path."""
    events = list(PATHS[path](reply, calls))
    if reply.stalls:
        events = events[:-1]
    return b"".join(
        f"data: {one if isinstance(one, str) else json.dumps(one)}\n\n".encode() for one in events
    )


def _pieces(text: str) -> list[str]:
    return [text[at : at + CHUNK] for at in range(0, len(text), CHUNK)]


def _arguments(call: Call) -> str:
    return call.raw or json.dumps(call.input)


def _anthropic(reply: Reply, calls: Sequence[Call]) -> Iterator[dict[str, Any]]:
    usage = {"input_tokens": reply.tokens, "output_tokens": 5, "cache_read_input_tokens": 3}
    yield {"type": "message_start", "message": {"role": "assistant", "usage": usage}}
    index = 0
    if reply.thinking:
        yield _block(index, {"type": "thinking", "thinking": "", "signature": ""})
        for piece in _pieces(reply.thinking):
            yield _delta(index, {"type": "thinking_delta", "thinking": piece})
        yield _delta(index, {"type": "signature_delta", "signature": "signed"})
        yield {"type": "content_block_stop", "index": index}
        index += 1
    if reply.text:
        yield _block(index, {"type": "text", "text": ""})
        for piece in _pieces(reply.text):
            yield _delta(index, {"type": "text_delta", "text": piece})
        yield {"type": "content_block_stop", "index": index}
        index += 1
    for number, call in enumerate(calls, index):
        yield _block(number, {"type": "tool_use", "id": call.id, "name": call.name, "input": {}})
        for piece in _pieces(_arguments(call)):
            yield _delta(number, {"type": "input_json_delta", "partial_json": piece})
        yield {"type": "content_block_stop", "index": number}
    reason = "tool_use" if calls else "end_turn"
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7}}
    yield {"type": "message_stop"}


def _block(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _delta(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def _responses(reply: Reply, calls: Sequence[Call]) -> Iterator[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if reply.thinking:
        items.append({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"})
        for piece in _pieces(reply.thinking):
            yield {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": piece}
    if reply.text:
        for piece in _pieces(reply.text):
            yield {"type": "response.output_text.delta", "output_index": len(items), "delta": piece}
        content = [{"type": "output_text", "text": reply.text}]
        items.append({"type": "message", "role": "assistant", "content": content})
    items += [
        {"type": "function_call", "call_id": one.id, "name": one.name, "arguments": _arguments(one)}
        for one in calls
    ]
    for index, item in enumerate(items):
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    usage = {
        "input_tokens": reply.tokens + 3,
        "output_tokens": 7,
        "input_tokens_details": {"cached_tokens": 3},
    }
    yield {"type": "response.completed", "response": {"status": "completed", "usage": usage}}


def _chat(reply: Reply, calls: Sequence[Call]) -> Iterator[dict[str, Any] | str]:
    for piece in _pieces(reply.thinking):
        yield _choice({"reasoning": piece, "reasoning_details": [{"type": "reasoning.text", "text": piece}]})
    for piece in _pieces(reply.text):
        yield _choice({"content": piece})
    for index, call in enumerate(calls):
        function = {"name": call.name, "arguments": ""}
        yield _choice({"tool_calls": [{"index": index, "id": call.id, "function": function}]})
        for piece in _pieces(_arguments(call)):
            yield _choice({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _choice({}, "tool_calls" if calls else "stop")
    usage = {"prompt_tokens": reply.tokens + 3, "completion_tokens": 7}
    yield {"choices": [], "usage": usage | {"prompt_tokens_details": {"cached_tokens": 3}}}
    yield "[DONE]"


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


PATHS = {"/v1/messages": _anthropic, "/v1/responses": _responses, "/v1/chat/completions": _chat}
