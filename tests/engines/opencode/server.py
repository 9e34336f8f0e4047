"""A scripted `opencode serve`: speaks its interface, plays a turn by the words of the prompt, and fails as they name.

`server.py LOG [FAULT]` appends every request to LOG; FAULT is one of the start: `mute`, `page`, `two`, `exits`.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

MODEL = {"providerID": "p", "modelID": "m"}
AGENT = {
    "name": "general",
    "mode": "subagent",
    "permission": [{"permission": "*", "pattern": "*", "action": "ask"}],
}
SETTINGS: dict[str, Any] = {
    "/config": {"model": "p/m"},
    "/config/providers": {"providers": [{"id": "p", "models": {"m": {"name": "M"}}}], "default": {"p": "m"}},
    "/experimental/tool/ids": ["bash", "read", "plugin_tool"],
    "/agent": [AGENT],
    "/mcp": {},
    "/command": [{"name": "greet", "template": "Say hello to $ARGUMENTS."}],
}


class Turn:
    """One prompt of a session, in a thread of its own."""

    def __init__(self, state: State, session: str, prompt: str, text: str) -> None:
        self.state, self.session, self.prompt, self.text = state, session, prompt, text
        self.request = state.new_id("msg")
        self.stopped = threading.Event()
        self.reply: queue.Queue[dict[str, Any]] = queue.Queue()
        self.parts: list[dict[str, Any]] = []
        self.info: dict[str, Any] = {"id": self.request, "role": "assistant", "parentID": prompt, "time": {}}

    def run(self) -> None:
        self.state.busy[self.session] = {"type": "busy"}
        self.tell("session.status", status={"type": "busy"})
        self.update()
        try:
            self.play()
        finally:
            self.state.turns.pop(self.session, None)

    def play(self) -> None:
        word, _, rest = self.text.partition(" ")
        match word:
            case "say":
                self.finish(rest)
            case "fail":
                self.finish("", error={"name": "APIError", "data": {"message": "No.", "statusCode": 400}})
            case "hang":
                self.say("wait ")
                self.stopped.wait(600)
                self.finish("", error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})
            case "ask" | "tool":
                self.use_tool(asked=True)
            case "leak":
                self.use_tool(asked=False)
            case "crash":
                self.say("Well")
                os._exit(3)
            case "drop":
                self.say("Before")
                self.state.drop_streams()
                self.part(self.parts[0] | {"text": "Before and after", "time": {"end": 1}}, told=False)
                self.info["time"]["completed"] = 1
                self.info["finish"] = "stop"
                self.state.busy.pop(self.session, None)
            case "early":
                self.idle()
                self.finish("Late, but here.")
            case "silent":
                self.state.busy.pop(self.session, None)
                self.tell(
                    "session.error", error={"name": "UnknownError", "data": {"message": "No such model"}}
                )
            case _:
                self.finish(self.text)

    def use_tool(self, *, asked: bool) -> None:
        call, given = self.state.new_id("call"), {"command": "touch made.txt", "description": "x"}
        part = {"id": self.state.new_id("prt"), "type": "tool", "tool": "bash", "callID": call}
        said = "it ran"
        if asked:
            self.ask("per", permission="bash", tool={"messageID": self.request, "callID": call})
        self.part({**part, "state": {"status": "running", "input": given}})
        reply = self.reply.get(timeout=60) if asked else {"reply": "once"}
        if reply["reply"] == "once":
            self.part({**part, "state": {"status": "completed", "input": given, "output": "ok"}})
        else:
            self.part({**part, "state": {"status": "error", "input": given, "error": "rejected"}})
            said = str(reply.get("message") or "")
        if self.stopped.is_set():
            self.finish("", error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})
        else:
            self.finish(said)

    def ask(self, kind: str, **given: Any) -> None:
        id = self.state.new_id(kind)
        asked: dict[str, Any] = {
            "id": id,
            "sessionID": self.session,
            "patterns": ["*"],
            "metadata": {},
            **given,
        }
        self.state.asked[id] = (asked, self)
        self.tell("permission.asked", **asked)

    def say(self, text: str) -> None:
        part = {"id": self.state.new_id("prt"), "type": "text", "text": text}
        self.part({**part, "text": ""})
        self.tell("message.part.delta", messageID=self.request, partID=part["id"], field="text", delta=text)
        self.parts[-1] |= {"text": text}

    def finish(self, text: str, error: dict[str, Any] | None = None) -> None:
        if text:
            self.say(text)
            self.part(self.parts[-1] | {"time": {"end": 1}})
        if error:
            self.info["error"] = error
            self.tell("session.error", error=error)
            self.idle()
        self.info |= {"finish": "stop", "time": {"completed": 1}}
        self.update()
        self.idle()

    def part(self, part: dict[str, Any], *, told: bool = True) -> None:
        part = {**part, "messageID": self.request, "sessionID": self.session}
        self.parts[:] = [one for one in self.parts if one["id"] != part["id"]] + [part]
        if told:
            self.tell("message.part.updated", part=part)

    def update(self) -> None:
        self.tell("message.updated", info=self.info)

    def idle(self) -> None:
        self.state.busy.pop(self.session, None)
        self.tell("session.status", status={"type": "idle"})
        self.tell("session.idle")

    def tell(self, name: str, **given: Any) -> None:
        self.state.tell({"type": name, "properties": {"sessionID": self.session, **given}})


class State:
    def __init__(self, log: str, fault: str) -> None:
        self.log, self.fault = log, fault
        self.sessions = self._load()
        self.busy: dict[str, dict[str, Any]] = {}
        self.turns: dict[str, Turn] = {}
        self.history: dict[str, list[Turn]] = {}
        self.asked: dict[str, tuple[dict[str, Any], Turn]] = {}
        self.streams: list[queue.Queue[str | None]] = []
        self._numbers = count(1)
        self._lock = threading.Lock()

    def _load(self) -> dict[str, dict[str, Any]]:
        """Sessions outlive a server."""
        path = f"{self.log}.sessions"
        return json.loads(open(path).read()) if os.path.exists(path) else {}

    def keep(self, session: dict[str, Any]) -> None:
        self.sessions[session["id"]] = session
        with open(f"{self.log}.sessions", "w") as file:
            json.dump(self.sessions, file)

    def new_id(self, kind: str) -> str:
        """Count from 1 within a millisecond, as OpenCode does: a prompt that came within it has 0."""
        within = (int(time.time() * 1000) << 12) + 1
        return f"{kind}_{within & (2**48 - 1):012x}{next(self._numbers):014d}"

    def tell(self, event: dict[str, Any]) -> None:
        line = json.dumps({"directory": "/", "payload": event})
        for stream in self.streams:
            stream.put(line)

    def drop_streams(self) -> None:
        streams = [*self.streams]
        self.streams.clear()
        for stream in streams:
            stream.put(None)
        time.sleep(0.05)

    def note(self, line: dict[str, Any]) -> None:
        with self._lock, open(self.log, "a") as file:
            file.write(json.dumps(line) + "\n")

    def get(self, path: str) -> tuple[int, Any]:
        if path in SETTINGS:
            return 200, SETTINGS[path]
        words = path.split("/")
        match words[1:]:
            case ["global", "health"]:
                return 200, {"healthy": True, "version": "2.1.3" if self.fault == "two" else "1.18.33"}
            case ["session", "status"]:
                return 200, self.busy
            case ["session", id, "message"]:
                return 200, [{"info": turn.info, "parts": turn.parts} for turn in self.history.get(id, ())]
            case ["session", id] if id in self.sessions:
                return 200, self.sessions[id]
            case ["permission"]:
                return 200, [asked for asked, _ in self.asked.values()]
            case ["question"]:
                return 200, []
            case _:
                return 404, {"name": "NotFoundError", "data": {"message": f"not found: {path}"}}

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        words = path.split("/")
        match words[1:]:
            case ["session"]:
                id = self.new_id("ses").replace("ses_", "ses_x")
                self.keep({"id": id, **body})
                return 200, self.sessions[id]
            case ["session", id, "prompt_async"]:
                if id not in self.turns:
                    self.begin(id, body["messageID"], body["parts"][0]["text"])
                return 204, None
            case ["session", id, "command"] if body["arguments"].startswith("say"):
                self.begin(id, body["messageID"], body["arguments"])
                return 200, {}
            case ["session", id, "command"]:
                return 400, {"name": "BadRequest", "data": {"message": f"no command {body['command']}"}}
            case ["session", id, "abort"]:
                if turn := self.turns.get(id):
                    turn.stopped.set()
                    turn.reply.put({"reply": "reject"})
                return 200, True
            case ["permission", id, "reply"] if id in self.asked:
                _, turn = self.asked.pop(id)
                turn.tell("permission.replied", requestID=id, reply=body["reply"])
                turn.reply.put(body)
                return 200, True
            case _:
                return 200, True

    def begin(self, id: str, prompt: str, text: str) -> None:
        turn = self.turns[id] = Turn(self, id, prompt, text)
        self.history.setdefault(id, []).append(turn)
        threading.Thread(target=turn.run, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *words: Any) -> None:  # pyrefly: ignore[missing-override-decorator, bad-override]
        pass

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/global/event":
            self.stream()
        elif self.state.fault == "page":
            self.send(200, b"<!doctype html><html></html>", "text/html")
        else:
            self.state.note({"method": "GET", "path": path})
            status, value = self.state.get(path)
            self.send(status, json.dumps(value).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"null")
        path = self.path.partition("?")[0]
        login = self.headers.get("authorization", "")
        self.state.note({"method": self.command, "path": path, "body": body, "login": bool(login)})
        status, value = self.state.post(path, body)
        self.send(status, b"" if value is None else json.dumps(value).encode())

    do_PATCH = do_POST

    def stream(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        events: queue.Queue[str | None] = queue.Queue()
        events.put('{"payload": {"type": "server.connected", "properties": {}}}')
        self.state.streams.append(events)
        while (event := events.get()) is not None:
            self.wfile.write(f"data: {event}\n\n".encode())
            self.wfile.flush()

    def send(self, status: int, data: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:  # pyrefly: ignore[missing-override-decorator]
        """A client that goes away in the middle is no news."""


def main() -> None:
    fault = sys.argv[2] if len(sys.argv) > 2 else ""
    if fault == "exits":
        sys.stderr.write("cannot open the database\n")
        sys.exit(3)
    Handler.state = State(sys.argv[1], fault)
    server = Server(("127.0.0.1", 0), Handler)
    if fault != "mute":
        print(f"opencode server listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
