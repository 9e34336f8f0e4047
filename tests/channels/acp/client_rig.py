"""The real `pilothouse acp` in a process of its own, with a scripted engine behind it, and a client of the protocol."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.channels.rpc.client_rig import write_home
from tests.channels.stdio_rig import Frame, StdioClient

SCRIPT = """\
[[turn]]
match = "approve"
steps = [
  { say = "Let me look." },
  { plan = ["look", "push"], done = 1, active = 1 },
  { tool = "read", title = "README.md", output = "# hi" },
  { ask = "Push it?", payload = { tool = "Bash", input = { command = "git push" } }, on_allow = [
    { tool = "command", title = "git push", output = "pushed" }, { say = "Done." } ], on_deny = [ { say = "No: {answer}" } ] },
  { usage = { cost_usd = 0.5, context_tokens = 1200, context_window = 200000 } },
]
[[turn]]
match = "edit"
steps = [
  { ask = "Edit it?", payload = { tool = "Edit", input = { file_path = "a.py", old_string = "1", new_string = "2" } }, call = { kind = "change", tool = "Edit", paths = ["a.py"], cwd = "/srv", change = { path = "a.py", replacements = [ { old = "1", new = "2" } ] } } },
  { say = "Edited." },
]
[[turn]]
match = "colour"
steps = [ { ask = "Which colour?", kind = "question", options = ["Red", "Blue"] }, { say = "{answer} it is" } ]
[[turn]]
match = "name"
steps = [ { ask = "Which name?", kind = "question", free_text = true }, { say = "{answer} it is" } ]
[[turn]]
match = "wait"
steps = [ { tool = "command", title = "sleep", for_s = 600 }, { say = "slept" } ]
[[turn]]
match = "break"
steps = [ { fail = "bad_request", text = "It broke." } ]
[[turn]]
steps = [ { think = "hm" }, { say = "heard: {prompt}" } ]
"""
FORMS: dict[str, Any] = {"elicitation": {"form": {}}}

__all__ = ["FORMS", "Client", "write_home"]


class Client(StdioClient):
    """`cwd` is the folder of its sessions."""

    def __init__(self, home: Path, *words: str, **environ: str) -> None:
        super().__init__(home, "acp", *words, **environ)
        self.cwd = str(home / "work")

    def initialize(self, **able: Any) -> Frame:
        return self.call("initialize", protocolVersion=1, clientCapabilities=able)["result"]

    def new(self) -> str:
        return self.call("session/new", cwd=self.cwd, mcpServers=[])["result"]["sessionId"]

    def prompt(self, session: str, text: str) -> str:
        """Send a prompt; return the id of its request."""
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def say(self, session: str, text: str) -> Frame:
        """Send a prompt and return its result."""
        return self.until_answer(self.prompt(session, text))["result"]

    def updates(self, kind: str = "") -> list[Frame]:
        found = [
            frame["params"]["update"] for frame in self.frames if frame.get("method") == "session/update"
        ]
        return [one for one in found if kind in ("", one["sessionUpdate"])]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(one["content"].get("text", "") for one in self.updates(kind))


def selected(option: str) -> Frame:
    return {"outcome": {"outcome": "selected", "optionId": option}}
