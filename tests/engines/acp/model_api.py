"""A scripted model on loopback, in the two dialects that the real agents speak: Google's, and OpenAI's chat completions.

A script is a function from a request to what the model does: say a text, or call a tool. Every request is kept.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

LONGEST_S = 120.0


class Request(NamedTuple):
    path: str
    body: dict[str, Any]
    headers: dict[str, str] = {}  # noqa: RUF012 - a named tuple's default is never changed

    @property
    def text(self) -> str:
        return json.dumps(self.body)

    @property
    def prompt(self) -> str:
        """The last text that is a person's."""
        said = [part for role, part in self._parts() if role == "user" and isinstance(part.get("text"), str)]
        return str(said[-1]["text"]) if said else ""

    @property
    def results(self) -> list[str]:
        """Results of calls after the last text of a person."""
        found: list[str] = []
        for role, part in self._parts():
            if role == "tool" or "functionResponse" in part:
                found.append(json.dumps(part))
            elif role == "user":
                found = []
        return found

    @property
    def tools(self) -> list[str]:
        listed = self.body.get("tools") or []
        named = [
            one
            for tool in listed
            for one in tool.get("functionDeclarations") or [tool.get("function") or tool]
        ]
        return [str(one.get("name")) for one in named]

    def _parts(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for message in self.body.get("contents") or self.body.get("messages") or ():
            content = message.get("parts") or message.get("content")
            for part in content if isinstance(content, list) else [{"text": content}]:
                yield str(message.get("role")), part


class Reply(NamedTuple):
    """Text, or a call; `status` makes it an error. `stall` sends the text and no end; `drop` cuts the stream after it."""

    text: str = ""
    tool: str = ""
    given: dict[str, Any] = {}  # noqa: RUF012 - a named tuple's default is never changed
    status: int = 200
    ending: Literal["stop", "stall", "drop"] = "stop"


Script = Callable[[Request], Reply]


class ModelApi:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.ids = itertools.count(1)
        self.closing = threading.Event()
        self._server = _Server(self)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"


@contextmanager
def open_model(script: Script) -> Iterator[ModelApi]:
    api = ModelApi(script)
    thread = threading.Thread(target=api._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api
    finally:
        api.closing.set()
        api._server.shutdown()
        api._server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, api: ModelApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api

    def handle_error(self, request: Any, client_address: Any) -> None:  # pyrefly: ignore[missing-override-decorator]
        """A client that goes away in the middle is a part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyrefly: ignore[bad-override]

    def log_message(self, *words: Any) -> None:  # pyrefly: ignore[missing-override-decorator, bad-override]
        pass

    def do_GET(self) -> None:
        models = [{"id": "gpt-4", "object": "model"}]
        self._send(200, "application/json", json.dumps({"object": "list", "data": models}))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = Request(
            self.path, json.loads(raw or b"{}"), {k.lower(): v for k, v in self.headers.items()}
        )
        self.server.api.requests.append(request)
        reply = self.server.api.script(request)
        with suppress(OSError):
            if reply.status != 200:
                error = {
                    "error": {
                        "code": reply.status,
                        "message": reply.text or "scripted error",
                        "status": "FAILED",
                    }
                }
                self._send(reply.status, "application/json", json.dumps(error))
            elif "enerateContent" in self.path:
                self._google(reply)
            else:
                self._openai(reply, stream=bool(request.body.get("stream")))

    def _google(self, reply: Reply) -> None:
        part = (
            {"functionCall": {"name": reply.tool, "args": reply.given}}
            if reply.tool
            else {"text": reply.text}
        )
        whole: dict[str, Any] = {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
        }
        if reply.ending != "stop":
            del whole["candidates"][0]["finishReason"]
            self._break_off(reply, f"data: {json.dumps(whole)}\r\n\r\n")
        elif "stream" in self.path:
            self._send(200, "text/event-stream", f"data: {json.dumps(whole)}\r\n\r\n")
        else:
            self._send(200, "application/json", json.dumps(whole))

    def _openai(self, reply: Reply, *, stream: bool) -> None:
        id = f"call_{next(self.server.api.ids)}"
        function = {"name": reply.tool, "arguments": json.dumps(reply.given)}
        calls = [{"index": 0, "id": id, "type": "function", "function": function}]
        said: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        said |= {"tool_calls": calls} if reply.tool else {}
        ends = "tool_calls" if reply.tool else "stop"
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        head = {"id": "chatcmpl-1", "created": 1, "model": "gpt-4"}
        if not stream:
            choice = {"index": 0, "message": said, "finish_reason": ends}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            self._send(200, "application/json", json.dumps(whole))
            return
        first = {"index": 0, "delta": said, "finish_reason": None}
        last: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": ends}
        chunks = [
            {**head, "object": "chat.completion.chunk", "choices": [first]},
            {**head, "object": "chat.completion.chunk", "choices": [last], "usage": usage},
        ]
        if reply.ending != "stop":
            self._break_off(reply, f"data: {json.dumps(chunks[0])}\n\n")
            return
        lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        self._send(200, "text/event-stream", f"{lines}data: [DONE]\n\n")

    def _break_off(self, reply: Reply, text: str) -> None:
        """Send a part of a chunked stream; then wait for ever, or cut it."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        raw = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(raw), raw))
        self.wfile.flush()
        if reply.ending == "stall":
            self.server.api.closing.wait(LONGEST_S)

    def _send(self, status: int, kind: str, text: str) -> None:
        raw = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
