"""A scripted Messages API on loopback: what a model would say, and every way in which an API can fail.

A script is a function from a request to a `Reply`. Each test opens a server of its own (a thread and a port); every
request is kept for assertions. Requests without tools are the CLI's own errands, and are answered apart.
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

CHUNK_CHARS = 20
LONGEST_S = 120.0

Block = dict[str, Any]


class Reply(NamedTuple):
    """`ending`: as an API should; `stall` keeps the stream open without a word; `drop` cuts it; `hang` sends no header."""

    blocks: Sequence[Block] = ()
    status: int = 200
    error: str = "api_error"
    message: str = "scripted error"
    headers: dict[str, str] = {}  # noqa: RUF012 - a named tuple's default is never changed
    usage: dict[str, int] = {}  # noqa: RUF012
    stop: str = ""
    ending: Literal["stop", "stall", "drop", "hang"] = "stop"


class Request(NamedTuple):
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def is_main(self) -> bool:
        return bool(self.body.get("tools"))

    @property
    def model(self) -> str:
        return str(self.body.get("model"))

    @property
    def system(self) -> str:
        return json.dumps(self.body.get("system"))

    @property
    def prompt(self) -> str:
        """What a person said last; the CLI's own reminders are left out."""
        said = [text for message in self._said_by("user") for text in _texts(message)]
        return next(
            (text for text in reversed(said) if not text.lstrip().startswith("<system-reminder>")), ""
        )

    @property
    def tool_results(self) -> list[Block]:
        """Those that came with the person's last message: empty when it is the model's turn to begin.

        In a long conversation the CLI puts a reminder of its own behind it.
        """
        content = self._said_by("user")[-1]
        blocks = content if isinstance(content, list) else []
        return [block for block in blocks if block.get("type") == "tool_result"]

    @property
    def text(self) -> str:
        return json.dumps(self.body)

    def _said_by(self, role: str) -> list[Any]:
        return [message["content"] for message in self.body["messages"] if message["role"] == role]


Script = Callable[[Request], Reply]


def say(*texts: str, **reply: Any) -> Reply:
    return Reply([{"text": text} for text in texts], **reply)


def use(name: str, id: str = "", **given: Any) -> Block:
    return {"tool": name, "input": given, "id": id}


def call(name: str, **given: Any) -> Reply:
    return Reply([use(name, **given)])


def bash(command: str) -> Reply:
    return call("Bash", command=command, description="d")


def think(text: str) -> Block:
    return {"thinking": text}


def pause(seconds: float) -> Block:
    return {"pause": seconds}


def wait_for(event: threading.Event) -> Block:
    """The stream stands still until the test says so."""
    return {"event": event}


def refuse(status: int, error: str = "api_error", message: str = "scripted error", **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, error=error, message=message, headers=named)


def in_order(*replies: Reply | Script) -> Script:
    """One after the other; the last one again and again."""
    numbers = itertools.count()
    lock = threading.Lock()

    def script(request: Request) -> Reply:
        with lock:
            reply = replies[min(next(numbers), len(replies) - 1)]
        return reply(request) if callable(reply) and not isinstance(reply, Reply) else reply

    return script


class ScriptedApi:
    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[Request] = []
        self.keeps = True
        self.closing = threading.Event()
        self._ids = itertools.count(1)
        self._server = _Server(self)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def main(self) -> list[Request]:
        return [request for request in self.requests if request.is_main]

    @contextmanager
    def serving(self) -> Iterator[ScriptedApi]:
        thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def reply_to(self, request: Request) -> Reply:
        if self.keeps:
            self.requests.append(request)
        return self.script(request) if request.is_main else say("An errand.")

    def next_id(self, kind: str) -> str:
        return f"{kind}_scripted{next(self._ids):05d}"


@contextmanager
def open_api(*replies: Reply | Script) -> Iterator[ScriptedApi]:
    with ScriptedApi(in_order(*replies)).serving() as api:
        yield api


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, api: ScriptedApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api

    def handle_error(self, request: Any, client_address: Any) -> None:  # pyrefly: ignore[missing-override-decorator]
        """A client that goes away in the middle is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server  # pyrefly: ignore[bad-override]

    def log_message(self, *words: Any) -> None:  # pyrefly: ignore[missing-override-decorator, bad-override]
        pass

    def do_GET(self) -> None:
        self._send_json(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        request = Request(self.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(raw))
        if "count_tokens" in self.path:
            self._send_json(200, {"input_tokens": len(raw) // 4})
            return
        reply = self.server.api.reply_to(request)
        if reply.ending == "hang":
            self._stand_still(None)
        elif reply.status != 200:
            told = {"type": "error", "error": {"type": reply.error, "message": reply.message}}
            self._send_json(reply.status, told, reply.headers)
        elif request.body.get("stream"):
            with suppress(OSError):
                self._stream(request, reply)
        else:
            self._send_json(200, self._message(request, reply, [self._whole(b) for b in reply.blocks]))

    def _stream(self, request: Request, reply: Reply) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in {
            "content-type": "text/event-stream",
            "connection": "close",
            **reply.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self._event("message_start", message=self._message(request, reply, []))
        for index, block in enumerate(b for b in reply.blocks if not self._stood_still(b)):
            self._stream_block(index, block)
        if reply.ending == "stall":
            self._stand_still(None)
        if reply.ending != "stop":
            return
        delta = {"stop_reason": _stop(reply), "stop_sequence": None}
        self._event("message_delta", delta=delta, usage=_usage(reply) | {"output_tokens": 20})
        self._event("message_stop")

    def _stream_block(self, index: int, block: Block) -> None:
        whole = self._whole(block)
        kind, key, text = _pieces(whole)
        begun: Block = {"input": {}} if kind == "input_json" else {key: ""}
        self._event("content_block_start", index=index, content_block=whole | begun)
        for start in range(0, len(text), CHUNK_CHARS):
            piece = {"type": f"{kind}_delta", key: text[start : start + CHUNK_CHARS]}
            self._event("content_block_delta", index=index, delta=piece)
        if kind == "thinking":
            signed = {"type": "signature_delta", "signature": "c2lnbmVk"}
            self._event("content_block_delta", index=index, delta=signed)
        self._event("content_block_stop", index=index)

    def _stood_still(self, block: Block) -> bool:
        if "pause" in block:
            self._stand_still(None, block["pause"])
        elif "event" in block:
            self._stand_still(block["event"])
        return "pause" in block or "event" in block

    def _stand_still(self, until: threading.Event | None, seconds: float = LONGEST_S) -> None:
        deadline, closing = time.monotonic() + seconds, self.server.api.closing
        if until is None:
            closing.wait(seconds)
            return
        while time.monotonic() < deadline and not until.is_set() and not closing.wait(0.01):
            pass

    def _whole(self, block: Block) -> Block:
        if "text" in block:
            return {"type": "text", "text": block["text"]}
        if "thinking" in block:
            return {"type": "thinking", "thinking": block["thinking"], "signature": "c2lnbmVk"}
        id = block["id"] or self.server.api.next_id("toolu")
        return {"type": "tool_use", "id": id, "name": block["tool"], "input": block["input"]}

    def _message(self, request: Request, reply: Reply, content: list[Block]) -> Block:
        stop = _stop(reply) if content else None
        return {
            "id": self.server.api.next_id("msg"),
            "type": "message",
            "role": "assistant",
            "model": request.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": _usage(reply),
        }

    def _event(self, name: str, **fields: Any) -> None:
        self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode())
        self.wfile.flush()

    def _send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"content-type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def _pieces(whole: Block) -> tuple[str, str, str]:
    """How a block streams: the kind of its deltas, their key, and the text that is cut into pieces."""
    match whole["type"]:
        case "text":
            return "text", "text", whole["text"]
        case "thinking":
            return "thinking", "thinking", whole["thinking"]
        case _:
            return "input_json", "partial_json", json.dumps(whole["input"])


def _stop(reply: Reply) -> str:
    return reply.stop or ("tool_use" if any("tool" in block for block in reply.blocks) else "end_turn")


def _usage(reply: Reply) -> dict[str, int]:
    plain = {
        "input_tokens": 100,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 1,
    }
    return plain | reply.usage


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content if block.get("type") == "text"]
