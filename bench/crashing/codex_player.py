"""An app-server that plays the script of the crash sweep: `python -m bench.crashing.codex_player SCRIPT WORLD app-server --listen unix://PATH`.

Like `player`, it leaves a line in the world for each tool with side effects. Each turn runs in a thread of its own, and goes
on while nobody is connected. Threads of Codex are kept in a file beside the world.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import sys
import tempfile
import threading
import time
import tomllib
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.crashing.journal import Journal
from bench.crashing.player import HARMLESS
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, unix_serve

APPROVAL = "item/commandExecution/requestApproval"
QUESTION = "item/tool/requestUserInput"


class Stopped(Exception):
    """The turn was interrupted."""


class Server:
    def __init__(self, script: str, world: str) -> None:
        self.turns: list[dict[str, Any]] = tomllib.loads(Path(script).read_text())["turn"]
        self.journal = Journal(Path(world))
        self._known = Path(f"{world}.threads")
        self._clients: list[ServerConnection] = []
        self._running: dict[str, Turn] = {}
        self.numbers = itertools.count()

    def run(self, path: str) -> None:
        real = f"{tempfile.mkdtemp(prefix='codex-player-')}/socket"  # the path may be too long for a socket
        os.symlink(real, path)
        with unix_serve(self._serve, real, compression=None, ping_interval=None) as server:
            server.serve_forever()

    def _serve(self, client: ServerConnection) -> None:
        self._clients.append(client)
        with suppress(ConnectionClosed):
            for line in client:
                message = json.loads(line)
                if "method" not in message:
                    for turn in list(self._running.values()):
                        turn.take_reply(message)
                elif "id" in message:
                    params = message.get("params") or {}
                    told = self._answer(client, message["method"], params, self._turn(params))
                    client.send(json.dumps({"id": message["id"], **told}))
                    if message["method"] == "turn/start":
                        self._begin(params, told["result"]["turn"]["id"])
        self._clients.remove(client)

    def _turn(self, params: dict[str, Any]) -> Turn | None:
        return self._running.get(params.get("threadId", ""))

    def _answer(
        self, client: ServerConnection, method: str, params: dict[str, Any], turn: Turn | None
    ) -> dict[str, Any]:
        thread = params.get("threadId", "")
        match method:
            case "thread/start":
                id = str(uuid.uuid4())
                with self._known.open("a") as kept:
                    kept.write(f"{id}\n")
                return {"result": {"thread": {"id": id, "status": {"type": "idle"}}, "model": "scripted"}}
            case "thread/resume" if thread not in self._known.read_text().split():
                return {"error": {"code": -32600, "message": f"no rollout found for thread id {thread}"}}
            case "thread/resume" | "thread/read":
                if turn and turn.request and method == "thread/resume":
                    client.send(json.dumps(turn.request))
                return {"result": {"thread": {"id": thread, "status": _status(turn)}, "model": "scripted"}}
            case "thread/loaded/list":
                return {"result": {"data": list(self._running)}}
            case "thread/turns/list":
                return {"result": {"data": [turn.describe()] if turn else []}}
            case "turn/start":
                return {"result": {"turn": {"id": turn.id if turn else str(uuid.uuid4())}}}
            case "turn/steer" if turn is None:
                return {"error": {"code": -32600, "message": "no active turn to steer"}}
            case "turn/steer":
                assert turn is not None
                turn.steer(params)
            case "turn/interrupt" if turn is not None:
                turn.heard.put(None)
            case "thread/unsubscribe":
                self.tell("thread/closed", threadId=thread)
            case _:
                pass
        return {"result": {}}

    def _begin(self, params: dict[str, Any], id: str) -> None:
        turn = self._running[params["threadId"]] = Turn(self, params, id)
        threading.Thread(target=turn.play, daemon=True).start()

    def end(self, thread: str) -> None:
        self._running.pop(thread, None)

    def tell(self, method: str, **params: Any) -> None:
        self.send({"method": method, "params": params})

    def send(self, message: dict[str, Any]) -> None:
        for client in list(self._clients):
            with suppress(ConnectionClosed):
                client.send(json.dumps(message))


def _status(turn: Turn | None) -> dict[str, Any]:
    if turn is None:
        return {"type": "idle"}
    return {"type": "active", "activeFlags": ["waitingOnApproval"] if turn.request else []}


class Turn:
    def __init__(self, server: Server, params: dict[str, Any], id: str) -> None:
        self.id = id
        self.heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        """Replies to requests; None for a stop."""
        self.request: dict[str, Any] | None = None
        self._server = server
        self._thread = params["threadId"]
        self._prompt = params["input"][0]["text"]
        self._words = ""

    def describe(self) -> dict[str, Any]:
        said = [{"type": "text", "text": self._prompt}]
        items = [{"type": "userMessage", "id": "prompt", "content": said}]
        return {"id": self.id, "status": "inProgress", "items": items}

    def steer(self, params: dict[str, Any]) -> None:
        self._words = params["input"][0]["text"].rpartition(": ")[2]
        self._item(
            "item/started", type="userMessage", id=str(uuid.uuid4()), clientId=params["clientUserMessageId"]
        )

    def take_reply(self, message: dict[str, Any]) -> None:
        if self.request is not None and message["id"] == self.request["id"]:
            self.heard.put(message)

    def play(self) -> None:
        self._tell("turn/started", turn={"id": self.id, "status": "inProgress"})
        steps = next(one for one in self._server.turns if one.get("match", "") in self._prompt)["steps"]
        status = "completed"
        try:
            self._steps(steps)
        except Stopped:
            status = "interrupted"
        self._server.end(self._thread)
        self._tell("turn/completed", turn={"id": self.id, "status": status, "items": [], "error": None})

    def _steps(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            match step:
                case {"say": text}:
                    self._say([text.format(prompt=self._prompt, answer=self._words)], 0.0)
                case {"stream": text, "chunk": size, "every_s": pause}:
                    whole = text.format(prompt=self._prompt).strip()
                    self._say([whole[at : at + size] for at in range(0, len(whole), size)], pause)
                case {"sleep": seconds}:
                    self._wait(seconds)
                case {"tool": kind, "title": title}:
                    self._tool(kind, title, step.get("for_s", 0.0))
                case {"ask": question}:
                    self._steps(self._ask(step, question))

    def _say(self, pieces: list[str], pause: float) -> None:
        id = str(uuid.uuid4())
        self._item("item/started", type="agentMessage", id=id, text="")
        for piece in pieces:
            self._tell("item/agentMessage/delta", itemId=id, delta=piece)
            self._wait(pause)
        self._item("item/completed", type="agentMessage", id=id, text="".join(pieces))

    def _tool(self, kind: str, title: str, seconds: float) -> None:
        if not self._approve(title):
            return
        self._wait(seconds)
        if kind not in HARMLESS:
            self._server.journal.add({"done": title})
        self._complete("completed")

    def _ask(self, step: dict[str, Any], question: str) -> list[dict[str, Any]]:
        """Ask, and return the steps that follow the answer."""
        if step.get("kind") == "question":
            told = self._reply(QUESTION, questions=[{"id": "q", "question": question, "options": []}])
            self._words = ", ".join(told["answers"].get("q", {"answers": []})["answers"])
            return step["on_answer"]
        allowed = self._approve(question)
        if allowed:
            self._complete("completed")
        return step["on_allow" if allowed else "on_deny"]

    def _approve(self, command: str) -> bool:
        self._call = {"type": "commandExecution", "id": str(uuid.uuid4()), "command": command}
        self._item("item/started", **self._call, status="inProgress")
        decision = self._reply(APPROVAL, itemId=self._call["id"], command=command)["decision"]
        if decision != "accept":
            self._complete("declined")
        if decision == "cancel":
            raise Stopped
        return decision == "accept"

    def _complete(self, status: str) -> None:
        self._item("item/completed", **self._call, status=status, source="agent")

    def _reply(self, method: str, **params: Any) -> dict[str, Any]:
        id, named = next(self._server.numbers), {"threadId": self._thread, "turnId": self.id}
        self.request = {"id": id, "method": method, "params": {**named, **params}}
        self._server.send(self.request)
        message = self.heard.get()
        self.request = None
        self._server.tell("serverRequest/resolved", threadId=self._thread, requestId=id)
        if message is None:
            raise Stopped
        return message["result"]

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with suppress(queue.Empty):
                if self.heard.get(timeout=left) is None:
                    raise Stopped

    def _item(self, method: str, **item: Any) -> None:
        self._tell(method, item=item)

    def _tell(self, method: str, **params: Any) -> None:
        self._server.tell(method, threadId=self._thread, turnId=self.id, **params)


if __name__ == "__main__":
    Server(*sys.argv[1:3]).run(sys.argv[-1].removeprefix("unix://"))
