"""An ACP agent that plays the script of the crash sweep: `python -m bench.crashing.acp_player SCRIPT WORLD`.

Like `player`, it leaves a line in the world for each tool with side effects. Its sessions are kept in a file beside it.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
import tomllib
import uuid
from pathlib import Path
from typing import Any

from bench.crashing.journal import Journal
from bench.crashing.player import HARMLESS

KINDS = {"command": "execute", "read": "read"}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Stopped(Exception):
    """The turn was cancelled."""


class Player:
    def __init__(self, script: str, world: str) -> None:
        self._turns = tomllib.loads(Path(script).read_text())["turn"]
        self._journal = Journal(Path(world))
        self._sessions = Path(f"{world}.sessions")
        self._heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._session = ""
        self._words = ""

    def run(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while (message := self._heard.get()) is not None:
            if "id" in message and "method" in message:
                self._answer(message["id"], message["method"], message.get("params") or {})

    def _listen(self) -> None:
        for line in sys.stdin:
            self._heard.put(json.loads(line))
        self._heard.put(None)

    def _answer(self, id: int, method: str, params: dict[str, Any]) -> None:
        known = self._sessions.read_text().split() if self._sessions.exists() else []
        match method:
            case "initialize":
                able: dict[str, Any] = {
                    "sessionCapabilities": {"resume": {}},
                    "promptCapabilities": {"image": True},
                }
                meta = {"steering": {"supported": True}}
                self._send(id=id, result={"protocolVersion": 1, "agentCapabilities": able, "_meta": meta})
            case "session/new":
                self._session = str(uuid.uuid4())
                with self._sessions.open("a") as kept:
                    kept.write(f"{self._session}\n")
                self._send(id=id, result={"sessionId": self._session})
            case "session/resume" if params["sessionId"] in known:
                self._session = params["sessionId"]
                self._send(id=id, result={})
            case "session/prompt":
                self._play(id, params["prompt"][0]["text"])
            case _:
                self._send(id=id, error={"code": -32603, "message": "Session not found"})

    def _play(self, id: int, prompt: str) -> None:
        turn = next(one for one in self._turns if one.get("match", "") in prompt)
        self._words = ""
        reason = "end_turn"
        try:
            self._steps(turn["steps"], prompt)
        except Stopped:
            reason = "cancelled"
        self._send(id=id, result={"stopReason": reason})

    def _steps(self, steps: list[dict[str, Any]], prompt: str) -> None:
        for step in steps:
            match step:
                case {"say": text}:
                    self._say(text.format(prompt=prompt, answer=self._words))
                case {"stream": text, "chunk": size, "every_s": pause}:
                    whole = text.format(prompt=prompt).strip()
                    for at in range(0, len(whole), size):
                        self._say(whole[at : at + size])
                        self._wait(pause)
                case {"sleep": seconds}:
                    self._wait(seconds)
                case {"tool": kind, "title": title}:
                    self._tool(kind, title, step.get("for_s", 0.0))
                case {"ask": question}:
                    self._steps(self._ask(step, question), prompt)

    def _tool(self, kind: str, title: str, seconds: float) -> None:
        id = str(uuid.uuid4())
        call = {"toolCallId": id, "kind": KINDS[kind], "title": title, "rawInput": {"command": title}}
        self._update("tool_call", **call, status="in_progress")
        self._wait(seconds)
        if kind not in HARMLESS:
            self._journal.add({"done": title})
        self._update("tool_call_update", toolCallId=id, status="completed")

    def _ask(self, step: dict[str, Any], question: str) -> list[dict[str, Any]]:
        """Ask, and return the steps that follow the answer."""
        id = f"ask-{uuid.uuid4()}"
        if step.get("kind") == "question":
            schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
            params = {"mode": "form", "message": question, "requestedSchema": schema}
            self._send(id=id, method="elicitation/create", params={"sessionId": self._session, **params})
            self._words = (self._reply(id).get("content") or {}).get("answer", "")
            return step["on_answer"]
        call = {"toolCallId": id, "kind": "think", "title": question, "rawInput": {"question": question}}
        params = {"sessionId": self._session, "toolCall": call, "options": OPTIONS}
        self._send(id=id, method="session/request_permission", params=params)
        allowed = self._reply(id)["outcome"].get("optionId") == "yes"
        self._update("tool_call_update", toolCallId=id, status="completed" if allowed else "failed")
        return step["on_allow" if allowed else "on_deny"]

    def _reply(self, id: str) -> dict[str, Any]:
        while True:
            message = self._next(None)
            if message is not None and message.get("id") == id:
                return message["result"]

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._next(left)

    def _next(self, within_s: float | None) -> dict[str, Any] | None:
        """Return the next message; words that are steered in are kept, and a stop ends the turn."""
        try:
            message = self._heard.get(timeout=within_s)
        except queue.Empty:
            return None
        if message is None:
            sys.exit(0)
        if message.get("method") == "session/cancel":
            raise Stopped
        if message.get("method") == "_session/steering":
            self._words = message["params"]["prompt"][0]["text"].rpartition(": ")[2]
            self._send(id=message["id"], result={"outcome": "injected"})
        return message

    def _say(self, text: str) -> None:
        self._update("agent_message_chunk", content={"type": "text", "text": text})

    def _update(self, update: str, /, **fields: Any) -> None:
        params = {"sessionId": self._session, "update": {"sessionUpdate": update, **fields}}
        self._send(method="session/update", params=params)

    def _send(self, **message: Any) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    Player(*sys.argv[1:]).run()
