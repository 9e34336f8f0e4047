"""Homes of `pilothouse rpc` with different engines behind it, which do the same at the same words:

"approve" says something, asks to run a command, and ends with "Done."; "wait" runs a long command; "colour" asks a
question with options and "name" one without, where the engine has such; anything else is answered at once. The models refuse a request that holds
a call without its result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from tests.channels.rpc.client_rig import write_home
from tests.engines.claude import api as claude_api
from tests.engines.claude.binary import claude_binary
from tests.engines.claude.rig import Rig
from tests.engines.native import model as native_model

ENGINES = ("script", "native", "claude")
SCRIPT = """\
[[turn]]
match = "approve"
steps = [
  { say = "Let me look." },
  { ask = "Make it?", payload = { tool = "Bash", input = { command = "touch made" } }, on_allow = [
    { tool = "command", title = "touch made" }, { say = "Done." } ], on_deny = [ { say = "Done." } ] },
]
[[turn]]
match = "colour"
steps = [ { say = "Let me look." }, { ask = "Which colour?", kind = "question", options = ["Red", "Blue"] }, { say = "Done." } ]
[[turn]]
match = "name"
steps = [ { say = "Let me look." }, { ask = "Which name?", kind = "question", free_text = true }, { say = "Done." } ]
[[turn]]
match = "wait"
steps = [ { tool = "command", title = "sleep", for_s = 600 } ]
[[turn]]
steps = [ { say = "Done." } ]
"""


class House(Struct, frozen=True):
    home: Path
    environ: dict[str, str]
    model: native_model.ScriptedModel | None = None


@contextmanager
def open_house(engine: str, home: Path) -> Iterator[House]:
    write_home(home, SCRIPT)
    match engine:
        case "script":
            yield House(home, {})
        case "native":
            with native_model.open_model(_native) as model:
                _configure(
                    home, "native", f'provider = "anthropic"\nmodel = "scripted"\nbase_url = "{model.url}"\n'
                )
                yield House(home, {"ANTHROPIC_API_KEY": "no-key-at-all"}, model)
        case _:
            with claude_api.open_api(_claude) as api:
                names = 'environment = ["ANTHROPIC_*", "CLAUDE_CODE_*", "DISABLE_*"]\n'
                _configure(home, "claude", f'command = "{claude_binary()}"\n{names}')
                environ = Rig(home, api).environment()
                yield House(home, {name: value for name, value in environ.items() if name != "HOME"})


def _configure(home: Path, engine: str, section: str) -> None:
    text = f'[gateway]\ndefault_engine = "{engine}"\n[engines.{engine}]\n{section}'
    (home / "config.toml").write_text(text)


QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


ASK = "mcp__pilothouse__ask_user_question"
QUESTIONS: dict[str, dict[str, Any]] = {
    "colour": {"question": "Which colour?", "options": ["Red", "Blue"]},
    "name": {"question": "Which name?"},
}


def _command(prompt: str) -> str:
    return {"approve": "touch made", "wait": "sleep 600"}.get(
        prompt.split(maxsplit=1)[0] if prompt else "", ""
    )


def _native(request: native_model.Request) -> native_model.Reply:
    if dangling(request.messages):
        return native_model.Reply("a call has no result", status=400)
    asked = QUESTIONS.get(request.prompt.partition(" ")[0])
    if asked and not request.results:
        return native_model.Reply("Let me look.", [native_model.Call(ASK, asked)])
    command = "" if request.results else _command(request.prompt)
    if not command:
        return native_model.Reply("Done.")
    call = native_model.Call("bash", {"command": command})
    return native_model.Reply("Let me look.", [call])


def _claude(request: claude_api.Request) -> claude_api.Reply:
    if dangling(request.body["messages"]):
        return claude_api.refuse(400, message="a call has no result")
    if not request.is_main or request.tool_results:
        return claude_api.say("Done.")
    command, call = _command(request.prompt), None
    if command:
        call = claude_api.use("Bash", command=command, description="d")
    elif request.prompt.startswith("colour"):
        call = claude_api.use("AskUserQuestion", questions=[QUESTION])
    return claude_api.Reply([{"text": "Let me look."}, call]) if call else claude_api.say("Done.")


def dangling(messages: list[dict[str, Any]]) -> set[str]:
    """Return the ids of calls that no result follows."""
    blocks = [block for one in messages if isinstance(one["content"], list) for block in one["content"]]
    called = {block["id"] for block in blocks if block.get("type") == "tool_use"}
    return called - {block["tool_use_id"] for block in blocks if block.get("type") == "tool_result"}
