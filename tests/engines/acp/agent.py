"""A scripted ACP agent: speaks the protocol, and does or fails what a prompt names.

`agent.py LOG [FAULT]` writes every line that it gets to LOG. FAULT is one of the start: `mute`, `refuses`, `prose`, `flood`, `exits`,
`version`; or a habit of this agent: `forgetful` (no earlier sessions), `loads` (replays them), `steers`, `free` (begins in yolo).
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

EMPTY: dict[str, Any] = {}
HUGE_BYTES = 100 * 1024 * 1024
OPTIONS = [
    {"optionId": "a", "name": "Always", "kind": "allow_always"},
    {"optionId": "y", "name": "Yes", "kind": "allow_once"},
    {"optionId": "n", "name": "No", "kind": "reject_once"},
]
MODES = {
    "currentModeId": "default",
    "availableModes": [{"id": "default", "name": "Ask"}, {"id": "yolo", "name": "Never ask"}],
}
MODEL = {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "small"}
EFFORT = {
    "id": "effort",
    "name": "Effort",
    "category": "thought_level",
    "type": "select",
    "currentValue": "low",
}
CHOICES = {
    "model": [{"value": "small", "name": "Small"}, {"value": "large", "name": "Large"}],
    "effort": [{"value": "low", "name": "Low"}, {"value": "high", "name": "High"}],
}


class Agent:
    def __init__(self, log: str, fault: str) -> None:
        self._log = open(log, "a", buffering=1)  # noqa: SIM115 - as long as the process
        self._known = Path(f"{log}.sessions")
        self.fault = fault
        self.session = ""
        self.cancelled = False
        self.steered: list[str] = []
        self._ids = 0
        self._cost = 0.0
        self.options = [{**one, "options": CHOICES[str(one["id"])]} for one in (MODEL, EFFORT)]

    def run(self) -> None:
        if self.fault == "prose":
            self.write(b"Welcome! Type a question.\n")
        if self.fault == "flood":
            self.write(b"Welcome!\n" * 1000)
        if self.fault == "exits":
            sys.stderr.write("unknown option --acp\n")
            sys.exit(3)
        while (message := self.hear()) is not None:
            if "method" in message and "id" in message:
                self._answer(message["id"], message["method"], message.get("params") or {})

    def hear(self) -> dict[str, Any] | None:
        line = sys.stdin.readline()
        self._log.write(line)
        return json.loads(line) if line else None

    def wait_for(self, id: str) -> dict[str, Any]:
        """Wait for the reply to our request; a stop is noted meanwhile."""
        while (message := self.hear()) is not None:
            if message.get("method") == "session/cancel":
                self.cancelled = True
            elif message.get("id") == id and "method" not in message:
                return message.get("result") or {}
            elif message.get("method") == "_session/steering":
                self.steer(message)
        sys.exit(0)

    def wait_for_stop(self) -> None:
        while (message := self.hear()) is not None:
            if message.get("method") == "session/cancel":
                self.cancelled = True
                return
            if message.get("method") == "_session/steering":
                self.steer(message)
        sys.exit(0)

    def steer(self, message: dict[str, Any]) -> None:
        self.steered.append(message["params"]["prompt"][0]["text"])
        self.send(id=message["id"], result={"outcome": "injected"})

    def _answer(self, id: int, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                self._greet(id)
            case "session/new":
                self._open(id, f"session-{uuid.uuid4()}")
            case "session/resume" | "session/load" if params["sessionId"] in self._sessions():
                if method == "session/load":
                    self.say("You said this before.", params["sessionId"])
                self._open(id, params["sessionId"])
            case "session/resume" | "session/load":
                self.send(
                    id=id,
                    error={
                        "code": -32603,
                        "message": "Internal error",
                        "data": {"details": "Session not found"},
                    },
                )
            case "session/set_mode" if params["modeId"] in ("default", "yolo"):
                self.send(id=id, result={})
            case "session/list":
                known = [
                    {"sessionId": one, "cwd": params["cwd"], "title": one[:8]} for one in self._sessions()
                ]
                known[0]["updatedAt"] = "2026-11-18T02:00:00Z"
                self.send(id=id, result={"sessions": known})
            case "session/set_config_option":
                self._choose(id, params)
            case "session/prompt":
                self.cancelled = False
                Turn(self, id).play(
                    params["prompt"][-1].get("text") or params["prompt"][0]["text"], params["prompt"]
                )
            case _:
                self.send(id=id, error={"code": -32601, "message": f"no method {method}"})

    def _greet(self, id: int) -> None:
        if self.fault == "mute":
            return
        if self.fault == "refuses":
            self.send(id=id, error={"code": -32600, "message": "too old"})
            return
        can: dict[str, Any] = {"loadSession": self.fault == "loads", "promptCapabilities": {"image": True}}
        if self.fault not in ("loads", "forgetful"):
            can["sessionCapabilities"] = dict.fromkeys(("list", "resume", "additionalDirectories"), EMPTY)
        meta = {"steering": {"supported": True}} if self.fault == "steers" else {}
        version = 7 if self.fault == "version" else 1
        self.send(
            id=id,
            result={
                "protocolVersion": version,
                "agentCapabilities": can,
                "agentInfo": {"name": "scripted", "version": "1.2.3"},
                "_meta": meta,
            },
        )

    def _sessions(self) -> list[str]:
        return self._known.read_text().split() if self._known.exists() else []

    def _open(self, id: int, session: str) -> None:
        self.session = session
        with self._known.open("a") as known:
            known.write(f"{session}\n")
        modes = {**MODES, "currentModeId": "yolo" if self.fault == "free" else "default"}
        self.send(id=id, result={"sessionId": session, "modes": modes, "configOptions": self.options})
        self.update("available_commands_update", availableCommands=[{"name": "plan", "description": "Plan."}])

    def _choose(self, id: int, params: dict[str, Any]) -> None:
        known = CHOICES.get(params["configId"], [])
        if params["value"] not in [one["value"] for one in known]:
            self.send(id=id, error={"code": -32602, "message": "no such value"})
            return
        for option in self.options:
            if option["id"] == params["configId"]:
                option["currentValue"] = params["value"]
        self.send(id=id, result={"configOptions": self.options})

    def say(self, text: str, session: str = "") -> None:
        self.update("agent_message_chunk", session, content={"type": "text", "text": text})

    def update(self, update: str, session: str = "", /, **fields: Any) -> None:
        params = {"sessionId": session or self.session, "update": {"sessionUpdate": update, **fields}}
        self.send(method="session/update", params=params)

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        self._ids += 1
        id = f"r{self._ids}"
        self.send(id=id, method=method, params={"sessionId": self.session, **params})
        return self.wait_for(id)

    def spend(self) -> None:
        self._cost += 0.25
        self.update("usage_update", used=10, size=100, cost={"amount": self._cost, "currency": "USD"})

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


class Turn:
    def __init__(self, agent: Agent, id: int) -> None:
        self._agent = agent
        self._id = id

    def play(self, prompt: str, blocks: list[dict[str, Any]]) -> None:
        agent = self._agent
        word = prompt.rpartition("\n")[2]
        match word.split(maxsplit=1):
            case ["run", command]:
                self.run(command)
            case ["leak", command]:
                self.call("execute", command, {"command": command})
                self.finish("Done without asking.")
            case ["options", kinds]:
                chosen = [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds.split()]
                self.run("make", chosen)
            case ["stop", reason]:
                agent.say("So far.")
                self.end(reason)
            case ["fail", code]:
                agent.send(id=self._id, error={"code": int(code), "message": "scripted error"})
            case _:
                self.play_word(word, blocks)

    def play_word(self, word: str, blocks: list[dict[str, Any]]) -> None:
        agent = self._agent
        match word:
            case "hang":
                agent.say("Well")
                time.sleep(600)  # reads nothing any more
            case "crash":
                agent.say("Well")
                agent.write(b'{"jsonrpc":"2.0","method":"session/upd')
                os._exit(3)
            case "wait":
                agent.say("Well")
                agent.wait_for_stop()
                self.end("cancelled", " ".join(agent.steered))
            case "edit":
                self.edit()
            case "plan":
                entries = [
                    {"content": "One", "status": "completed"},
                    {"content": "Two", "status": "in_progress"},
                ]
                agent.update("plan", entries=entries)
                self.finish("Planned.")
            case "form":
                schema = {"type": "object", "properties": {"size": {"type": "string", "enum": ["S", "L"]}}}
                told = agent.request(
                    "elicitation/create", mode="form", message="Which size?", requestedSchema=schema
                )
                self.finish(json.dumps(told))
            case "file":
                told = agent.request("fs/read_text_file", path="/etc/passwd")
                self.finish(json.dumps(told))
            case "look":
                self.finish(" ".join(str(block["type"]) for block in blocks))
            case "mode":
                agent.update("current_mode_update", currentModeId="yolo")
                self.finish("Free at last.")
            case _:
                self.play_fault(word)

    def play_fault(self, word: str) -> None:
        agent = self._agent
        match word:
            case "strange":
                agent.update("dream_update", depth=3)
                agent.send(method="session/dreamt", params={"depth": 4})
                agent.update("agent_message_chunk", content={"type": "hologram", "data": "x"})
                agent.update(
                    "tool_call", toolCallId="s1", title=7, kind="teleport", status="completed", rawInput=[1]
                )
                agent.update("notice", severity="warning", title="Mind the gap.")
                self.finish("Awake.")
            case "huge":
                agent.write(b'{"jsonrpc":"2.0","method":"x","params":"' + b"x" * HUGE_BYTES + b'"}\n')
                self.finish("Still here.")
            case "noise":
                agent.write(b"debug: 1\ndebug: 2\ndebug: 3\n")
                self.finish("Still here.")
            case "late":
                self.finish("Before.")
                agent.say("After the end")
                agent.update("tool_call", toolCallId="late", title="make", kind="execute", status="completed")
                options = {"toolCall": {"toolCallId": "late"}, "options": OPTIONS}
                agent.send(
                    id="late",
                    method="session/request_permission",
                    params={"sessionId": agent.session, **options},
                )
            case "twice":
                self.finish("Once.")
                agent.send(id=self._id, result={"stopReason": "end_turn"})
            case "deltas":
                for _ in range(5000):
                    agent.say("word ")
                self.end("end_turn")
            case _:
                self.finish(word)

    def run(self, command: str, options: list[dict[str, str]] = OPTIONS) -> None:
        agent = self._agent
        call = {"toolCallId": f"call-{uuid.uuid4()}", "title": command, "kind": "execute", "name": "shell"}
        given = {"rawInput": {"command": command}}
        told = agent.request(
            "session/request_permission", toolCall={**call, **given, "status": "pending"}, options=options
        )
        outcome = told.get("outcome") or {}
        if agent.cancelled:
            self.end("cancelled")
            return
        chosen = outcome.get("optionId", "")
        if chosen in ("y", "a") or chosen.startswith("allow"):
            content = [{"type": "content", "content": {"type": "text", "text": "output"}}]
            agent.update(
                "tool_call_update", toolCallId=call["toolCallId"], status="completed", content=content
            )
            self.finish(f"Ran with {chosen}. {' '.join(agent.steered)}".strip())
        else:
            agent.update("tool_call_update", toolCallId=call["toolCallId"], status="failed")
            self.end("end_turn", " ".join(agent.steered))

    def edit(self) -> None:
        agent = self._agent
        diff = {"type": "diff", "path": f"{os.getcwd()}/a.txt", "oldText": "one\n", "newText": "two\n"}
        call = {"toolCallId": "edit-1", "title": "Edit", "kind": "edit", "content": [diff]}
        agent.update("tool_call", **call, status="pending")
        told = agent.request("session/request_permission", toolCall=call, options=OPTIONS)
        agent.update("tool_call_update", toolCallId="edit-1", status="completed")
        self.finish(json.dumps(told))

    def call(self, kind: str, title: str, given: dict[str, Any]) -> None:
        id = f"call-{uuid.uuid4()}"
        self._agent.update(
            "tool_call", toolCallId=id, title=title, kind=kind, status="in_progress", rawInput=given
        )
        self._agent.update("tool_call_update", toolCallId=id, status="completed")

    def finish(self, text: str) -> None:
        self._agent.say(text)
        self._agent.spend()
        self.end("end_turn")

    def end(self, reason: str, text: str = "") -> None:
        if text:
            self._agent.say(text)
        usage = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120}
        self._agent.send(id=self._id, result={"stopReason": reason, "usage": usage})


if __name__ == "__main__":
    Agent(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "").run()
