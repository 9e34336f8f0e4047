"""One turn of a script: steps in, events out. Standard library only, because the player loads it.

A turn runs in a thread of its own and may block. It always waits on its `Cue`, so an interrupt takes effect at once.
Events are dictionaries in the form of docs/events.md.
"""

from __future__ import annotations

import base64
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from pilothouse.engines.script import faults
from pilothouse.engines.script.steps import Script, Table, step_name


class Interrupted(Exception):
    """The turn was asked to stop."""


class Over(Exception):
    """The script ends the turn here, before its last step."""

    def __init__(self, outcome: str, failure: Table | None = None) -> None:
        super().__init__(outcome)
        self.outcome = outcome
        self.failure = failure


class Stage(Protocol):
    """The receiver of what a turn produces."""

    def event(self, event: Table) -> None: ...

    def media(self, name: str, media_type: str, data: str) -> None: ...

    def raw(self, data: bytes) -> None: ...


class Cue:
    """Signals to a running turn: an interrupt, and answers to its asks."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._interrupted = False
        self._answers: dict[str, Table] = {}

    def interrupt(self) -> None:
        with self._changed:
            self._interrupted = True
            self._changed.notify_all()

    def answer(self, ask_id: str, decision: Table) -> None:
        with self._changed:
            self._answers[ask_id] = decision
            self._changed.notify_all()

    def check(self) -> None:
        if self._interrupted:
            raise Interrupted

    def sleep(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._interrupted, seconds)
        self.check()

    def await_answer(self, ask_id: str) -> Table:
        with self._changed:
            self._changed.wait_for(lambda: self._interrupted or ask_id in self._answers)
        self.check()
        return self._answers.pop(ask_id)


class Play:
    """Plays the steps of one turn. `answer` is all text so far; `usage` is reported at the end."""

    def __init__(
        self,
        script: Script,
        prompt: str,
        stage: Stage,
        cue: Cue,
        cwd: str = "",
        servers: Table | None = None,
    ) -> None:
        self._folder = script.folder
        self._cwd = cwd
        self._servers = servers or {}
        self._stage = stage
        self._cue = cue
        self._words = {"prompt": prompt, "answer": "", "result": ""}
        self._blocks: list[str] = []
        self._calls = 0
        self.usage: Table = {"steps": 0}
        self.hang_after_result = False

    @property
    def answer(self) -> str:
        return "\n\n".join(block.strip("\n") for block in self._blocks if block.strip())

    def run(self, steps: list[Table]) -> None:
        for step in steps:
            self._cue.check()
            name = step_name(step)
            assert name is not None, "the script was checked when it was loaded"
            self.usage["steps"] += 1
            _ACTIONS[name](self, step)

    def say(self, step: Table) -> None:
        text = self._fill(step["say"])
        self._stage.event({"type": "text_set", "block_id": self._open_block(text), "text": text})

    def stream(self, step: Table) -> None:
        text, size = self._fill(step["stream"]), step.get("chunk", 8)
        block_id = self._open_block("")
        every_s, due_at = step.get("every_s", 0.02), time.monotonic()
        for start in range(0, len(text), size):
            chunk = text[start : start + size]
            self._blocks[-1] += chunk
            self._stage.event({"type": "text_delta", "block_id": block_id, "text": chunk})
            # Counted from the start, so that a stream takes its time even on a busy machine.
            due_at += every_s
            self._cue.sleep(max(0.0, due_at - time.monotonic()))

    def think(self, step: Table) -> None:
        self._stage.event({"type": "thinking_delta", "text": self._fill(step["think"])})

    def tool(self, step: Table) -> None:
        title = self._fill(step.get("title", step["tool"]))
        call_id = self._open_tool(step["tool"], title)
        try:
            self._cue.sleep(step.get("for_s", 0.0))
        except Interrupted:
            self._close_tool(call_id, ok=False)
            raise
        self._close_tool(call_id, step.get("ok", True), self._fill(step.get("output", "")))

    def call(self, step: Table) -> None:
        """Call one of Pilothouse's own tools; later steps may say its `{result}`."""
        from pilothouse.engines.script.tool_call import call_tool  # slow to import, and seldom needed

        name, given = step["call"], self._filled(step.get("arguments", {}))
        call_id = self._open_tool("tool", f"pilothouse.{name}")
        server = self._servers.get("pilothouse")
        ok, text = call_tool(server, name, given) if server else (False, "There are no tools here.")
        self._words["result"] = text
        self._close_tool(call_id, ok, text)

    def _filled(self, given: Any) -> Any:
        match given:
            case str():
                return self._fill(given)
            case dict():
                return {key: self._filled(value) for key, value in given.items()}
            case list():
                return [self._filled(value) for value in given]
            case _:
                return given

    def plan(self, step: Table) -> None:
        done, active = step.get("done", 0), step.get("active")
        items = [
            {"text": text, "status": "done" if n < done else "active" if n == active else "pending"}
            for n, text in enumerate(step["plan"])
        ]
        self._stage.event({"type": "plan_changed", "items": items})

    def ask(self, step: Table) -> None:
        title, kind = self._fill(step["ask"]), step.get("kind", "approval")
        # The id may be random, the payload not: a turn that is played again must ask the same thing.
        ask = {
            "id": f"ask-{uuid.uuid4().hex[:12]}",
            "kind": kind,
            "title": title,
            "payload": self._with_cwd(step.get("payload", self._shown({"kind": kind, "title": title}, step))),
            "options": [{"key": text, "label": text} for text in step.get("options", [])],
            "free_text": step.get("free_text", kind == "question" and "options" not in step),
        }
        if "call" in step:
            ask["call"] = {"cwd": self._cwd, **step["call"]}
        self._stage.event({"type": "asked", "ask": ask})
        self._follow_decision(step, self._cue.await_answer(ask["id"]))

    def _shown(self, plain: Table, step: Table) -> Table:
        """Return the payload of an ask without one: people see the call, and their answer is bound to it."""
        return {**plain, "call": step["call"]} if "call" in step else plain

    def _with_cwd(self, payload: Table) -> Table:
        """Add the folder in which a call runs: rules need it to tell what the call touches."""
        return {**payload, "cwd": self._cwd} if "input" in payload and "cwd" not in payload else payload

    def _follow_decision(self, step: Table, decision: Table) -> None:
        chosen = [*decision.get("options", []), decision.get("text", "")]
        self._words["answer"] = ", ".join(text for text in chosen if text)
        asked = step.get("payload", {}).get("input", {})
        self._words["command"] = str((decision.get("input") or asked).get("command", ""))
        match decision.get("verdict"):
            case "allow":
                self.run(step.get("on_allow", []))
            case "answer":
                self.run(step.get("on_answer", [{"say": "You answered: {answer}"}]))
            case _ if decision.get("text"):
                self.run(step.get("on_deny", [{"say": "You said no ({answer}), so I go on without it."}]))
            case _:
                raise Over("cancelled")

    def image(self, step: Table) -> None:
        import mimetypes  # slow to import, and seldom needed

        path = self._folder / step["image"]
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self._stage.media(path.name, media_type, base64.b64encode(path.read_bytes()).decode())

    def notice(self, step: Table) -> None:
        level, kind = step.get("level", "info"), step.get("kind", "script")
        self._stage.event(
            {"type": "notice", "level": level, "kind": kind, "text": self._fill(step["notice"])}
        )

    def report_usage(self, step: Table) -> None:
        self.usage.update(step["usage"])
        self._stage.event({"type": "usage_changed", "usage": dict(self.usage)})

    def sleep(self, step: Table) -> None:
        self._cue.sleep(step["sleep"])

    def fail(self, step: Table) -> None:
        kind = step["fail"]
        failure = {"kind": kind, "text": self._fill(step.get("text", f"The script failed with {kind}."))}
        failure["detail"] = step.get("detail", "")
        if "retry_in_s" in step:
            failure["retry_at"] = time.time() + step["retry_in_s"]
        raise Over("failed", failure)

    def crash(self, step: Table) -> None:
        half = b'{"type":"event","session":"' if step.get("mid_line") else b""
        self._stage.raw(half)
        faults.crash(step["crash"], step.get("stderr", ""))

    def hang(self, step: Table) -> None:
        if step.get("after_result"):
            self.hang_after_result = True
            return
        faults.hung.set()  # before the notice: nothing that is sent after it may be obeyed
        self.notice({"notice": "The engine hangs now."})
        faults.hang()

    def flood(self, step: Table) -> None:
        into, size = step.get("into", "tool"), step["flood"]
        if into != "tool":
            faults.flood(size, into, self._stage.raw, self._cue.check)
            return
        call_id = self._open_tool("command", "flood")
        for start in range(0, size, faults.PORTION):
            self._cue.check()
            output = "x" * min(faults.PORTION, size - start)
            self._stage.event({"type": "tool_updated", "call_id": call_id, "output": output})
        self._close_tool(call_id, ok=True)

    def garbage(self, step: Table) -> None:
        for number in range(step["garbage"]):
            self._stage.raw(faults.GARBAGE[number % len(faults.GARBAGE)] + b"\n")

    def spawn(self, step: Table) -> None:
        call_id = self._open_tool("command", self._fill(step["spawn"]))
        faults.spawn_escaped_child()
        self._close_tool(call_id, ok=True, output="It ignores SIGTERM and has left our group.")

    def ignore_sigterm(self, step: Table) -> None:
        faults.ignore_sigterm()

    def _fill(self, text: str) -> str:
        # Not str.format: prompts and scripts contain braces that mean something else.
        for name, value in self._words.items():
            text = text.replace("{" + name + "}", value)
        return text

    def _open_block(self, text: str) -> str:
        self._blocks.append(text)
        return f"block-{len(self._blocks)}"

    def _open_tool(self, kind: str, title: str) -> str:
        self._calls += 1
        call = {"id": f"call-{self._calls}", "kind": kind, "title": title}
        self._stage.event({"type": "tool_started", "call": call})
        return call["id"]

    def _close_tool(self, call_id: str, ok: bool, output: str = "") -> None:
        self._stage.event({"type": "tool_finished", "call_id": call_id, "ok": ok, "output": output})


_ACTIONS: dict[str, Callable[[Play, Table], None]] = {
    "say": Play.say,
    "stream": Play.stream,
    "think": Play.think,
    "tool": Play.tool,
    "call": Play.call,
    "plan": Play.plan,
    "ask": Play.ask,
    "image": Play.image,
    "notice": Play.notice,
    "usage": Play.report_usage,
    "sleep": Play.sleep,
    "fail": Play.fail,
    "crash": Play.crash,
    "hang": Play.hang,
    "flood": Play.flood,
    "garbage": Play.garbage,
    "spawn": Play.spawn,
    "ignore_sigterm": Play.ignore_sigterm,
}
