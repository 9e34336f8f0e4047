"""A scripted Responses API on loopback: what a model would say, and every way in which an API can fail.

A script is a function from a request to a `Reply`. Each test opens a server of its own (a thread and a port); every
request is kept for assertions.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, NamedTuple

CHUNK_CHARS = 12
LONGEST_S = 120.0

Item = dict[str, Any]


class Reply(NamedTuple):
    """`ending`: as an API should; `stall` keeps the stream open without a word; `drop` cuts it."""

    items: Sequence[Item] = ()
    status: int = 200
    error: str = ""
    message: str = "scripted error"
    headers: dict[str, str] = {}  # noqa: RUF012 - a named tuple's default is never changed
    usage: tuple[int, int, int] = (100, 10, 20)
    """Input, cached input and output tokens."""
    ending: Literal["stop", "stall", "drop"] = "stop"


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """What a person said last; the program's own notes in angle brackets are left out."""
        said = [text for item in self._input if item.get("role") == "user" for text in _texts(item)]
        return next((text for text in reversed(said) if not text.lstrip().startswith("<")), "")

    @property
    def outputs(self) -> list[str]:
        """Results of calls after the last user message, oldest first."""
        found: list[str] = []
        for item in self._input:
            if item.get("role") == "user":
                found = []
            elif str(item.get("type")).endswith("_output"):
                found.append(json.dumps(item.get("output")))
        return found

    @property
    def tools(self) -> list[str]:
        return [str(tool.get("name") or tool.get("type")) for tool in self.body.get("tools") or ()]

    @property
    def text(self) -> str:
        return json.dumps(self.body)

    @property
    def _input(self) -> list[Item]:
        return list(self.body.get("input") or ())


Script = Callable[[Request], Reply]


def say(*texts: str, **reply: Any) -> Reply:
    return Reply([{"say": text} for text in texts], **reply)


def begin(text: str) -> Reply:
    """Say the beginning of a message, and nothing more."""
    return Reply([{"say": text, "cut": True}], ending="stall")


def call(name: str, **given: Any) -> Reply:
    return Reply([{"call": name, "arguments": given}])


def shell(command: str, **given: Any) -> Reply:
    return call("exec_command", cmd=command, **given)


def patch(path: str, *lines: str) -> Reply:
    body = "\n".join(f"+{line}" for line in lines)
    whole = f"*** Begin Patch\n*** Add File: {path}\n{body}\n*** End Patch"
    return Reply([{"custom": "apply_patch", "input": whole}])


def code(script: str) -> Reply:
    """A program of the models that write code instead of single calls."""
    return Reply([{"custom": "exec", "input": script}])


def wait_for(event: threading.Event) -> Item:
    """The stream stands still until the test says so."""
    return {"event": event}


def refuse(status: int, message: str = "scripted error", error: str = "", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, error=error, message=message, headers=named)


def fail(code: str, message: str = "scripted error") -> Reply:
    """A stream that begins well and ends in `response.failed`."""
    return Reply(error=code, message=message)


def in_order(*replies: Reply | Script) -> Script:
    """One after the other; the last one again and again."""
    numbers = itertools.count()
    lock = threading.Lock()

    def script(request: Request) -> Reply:
        with lock:
            reply = replies[min(next(numbers), len(replies) - 1)]
        return reply if isinstance(reply, Reply) else reply(request)

    return script


class ScriptedApi:
    handler: type[Handler]

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._ids = itertools.count(1)
        self._server = _Server(self, self.handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @contextmanager
    def serving(self) -> Iterator[ScriptedApi]:
        serve = self._server.serve_forever
        thread = threading.Thread(target=serve, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def reply_to(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.script(request)

    def next_id(self, kind: str) -> str:
        return f"{kind}_scripted{next(self._ids):05d}"


@contextmanager
def open_api(*replies: Reply | Script) -> Iterator[ScriptedApi]:
    with ScriptedApi(in_order(*replies)).serving() as api:
        yield api


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, api: ScriptedApi, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.api = api

    def handle_error(self, request: Any, client_address: Any) -> None:  # pyrefly: ignore[missing-override-decorator]
        """A client that goes away in the middle is what many tests are about."""


class Handler(BaseHTTPRequestHandler):
    """Streams as the Responses API does; a subclass for another API replaces `_stream`."""

    request_type: type[Request] = Request
    protocol_version = "HTTP/1.1"
    server: _Server  # pyrefly: ignore[bad-override]

    def log_message(self, *words: Any) -> None:  # pyrefly: ignore[missing-override-decorator, bad-override]
        pass

    def do_GET(self) -> None:
        self._send_json(404, {"error": {"message": self.path}}, {})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = self.request_type(
            self.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(raw)
        )
        reply = self.server.api.reply_to(request)
        if reply.status != 200:
            error = {"message": reply.message, **({"type": reply.error} if reply.error else {})}
            self._send_json(reply.status, {"error": error}, reply.headers)
        else:
            with suppress(OSError):
                self._stream(reply)

    def _begin_stream(self, reply: Reply) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in {
            "content-type": "text/event-stream",
            "connection": "close",
            **reply.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def _stream(self, reply: Reply) -> None:
        self._begin_stream(reply)
        id = self.server.api.next_id("resp")
        self._event("response.created", response={"id": id})
        for index, item in enumerate(item for item in reply.items if not self._stood_still(item)):
            self._stream_item(index, item)
        if reply.ending == "stall":
            self._stand_still(None)
        if reply.error:
            error = {"code": reply.error, "message": reply.message}
            self._event("response.failed", response={"id": id, "status": "failed", "error": error})
        elif reply.ending == "stop":
            self._event("response.completed", response={"id": id, "usage": _usage(reply)})

    def _stream_item(self, index: int, item: Item) -> None:
        next_id = self.server.api.next_id
        if "say" in item:
            self._stream_text(index, next_id("msg"), item["say"], cut=item.get("cut", False))
        elif "think" in item:
            self._stream_thought(index, next_id("rs"), item["think"])
        elif "custom" in item:
            whole = {"type": "custom_tool_call", "name": item["custom"], "input": item["input"]}
            self._whole(index, whole | {"id": next_id("ctc"), "call_id": next_id("call")})
        else:
            given = json.dumps(item["arguments"])
            whole = {"type": "function_call", "name": item["call"], "arguments": given}
            space = {"namespace": item["namespace"]} if "namespace" in item else {}
            self._whole(index, whole | space | {"id": next_id("fc"), "call_id": next_id("call")})

    def _stream_text(self, index: int, id: str, text: str, *, cut: bool) -> None:
        item: Item = {"type": "message", "role": "assistant", "id": id, "content": []}
        self._event("response.output_item.added", output_index=index, item=item)
        for start in range(0, len(text), CHUNK_CHARS):
            piece = text[start : start + CHUNK_CHARS]
            self._event(
                "response.output_text.delta", item_id=id, output_index=index, content_index=0, delta=piece
            )
        whole = item | {"content": [{"type": "output_text", "text": text}]}
        if not cut:
            self._event("response.output_item.done", output_index=index, item=whole)

    def _stream_thought(self, index: int, id: str, text: str) -> None:
        item: Item = {"type": "reasoning", "id": id, "summary": []}
        self._event("response.output_item.added", output_index=index, item=item)
        self._event("response.reasoning_summary_part.added", item_id=id, output_index=index, summary_index=0)
        self._event(
            "response.reasoning_summary_text.delta",
            item_id=id,
            output_index=index,
            summary_index=0,
            delta=text,
        )
        whole = item | {"summary": [{"type": "summary_text", "text": text}], "encrypted_content": "x"}
        self._event("response.output_item.done", output_index=index, item=whole)

    def _whole(self, index: int, item: Item) -> None:
        self._event("response.output_item.added", output_index=index, item=item)
        self._event("response.output_item.done", output_index=index, item=item)

    def _stood_still(self, item: Item) -> bool:
        if "event" in item:
            self._stand_still(item["event"])
        return "event" in item

    def _stand_still(self, until: threading.Event | None) -> None:
        deadline, closing = time.monotonic() + LONGEST_S, self.server.api.closing
        while time.monotonic() < deadline and not (until and until.is_set()) and not closing.wait(0.01):
            pass

    def _event(self, name: str, **fields: Any) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode())
        self.wfile.flush()

    def _send_json(self, status: int, value: Any, headers: dict[str, str]) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **headers}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


ScriptedApi.handler = Handler


def _usage(reply: Reply) -> dict[str, Any]:
    given, cached, made = reply.usage
    return {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + made,
    }


def _texts(item: Item) -> list[str]:
    content = item.get("content")
    if isinstance(content, str):
        return [content]
    return [str(part.get("text") or "") for part in content or () if "text" in part]
