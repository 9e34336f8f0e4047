"""The moves of a model in each vendor's words, for the scripted models of the tests."""

from __future__ import annotations

from typing import Any

from bench.scenarios.model import COLOURS, OPEN_S, QUESTION, Move
from tests.engines.acp import model_api as acp
from tests.engines.claude import api as claude
from tests.engines.codex import api as codex
from tests.engines.opencode import api as opencode

OPTIONS = [{"label": label, "description": words} for label, words in COLOURS]
ASKED: dict[str, Any] = {"header": "Colour", "question": QUESTION, "options": OPTIONS}
ASKED_BY_TOOL: dict[str, Any] = {
    "question": QUESTION,
    "options": [label for label, _ in COLOURS],
    "timeout": OPEN_S,
}
TOO_LONG = (
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."
)


def speak_claude(move: Move) -> claude.Reply:
    match move.kind:
        case "say":
            return claude.say(move.text)
        case "begin":
            return claude.say(move.text, ending="stall")
        case "drop":
            return claude.say(move.text, ending="drop")
        case "command":
            return claude.bash(move.text)
        case "question":
            return claude.call("AskUserQuestion", questions=[{**ASKED, "multiSelect": False}])
        case "tool":
            return claude.call(move.text, **ASKED_BY_TOOL)
        case "fail":
            if move.text == "overflow":
                words = "prompt is too long: 210000 tokens > 200000 maximum"
                return claude.refuse(400, "invalid_request_error", words)
            kinds = {401: "authentication_error", 429: "rate_limit_error"}
            return claude.refuse(move.status, kinds.get(move.status, "api_error"), move.text)


def speak_codex(move: Move) -> codex.Reply:
    match move.kind:
        case "command":
            return codex.shell(move.text)
        case "question":
            return codex.call("request_user_input", questions=[{"id": "colour", **ASKED}])
        case "tool":
            named = {"call": "ask_user_question", "namespace": "mcp__pilothouse"}
            return codex.Reply([{**named, "arguments": ASKED_BY_TOOL}])
        case "fail" if move.text == "overflow":
            return codex.fail("context_length_exceeded", TOO_LONG)
        case _:
            return _speak_plainly(move)


def speak_opencode(move: Move) -> codex.Reply:
    match move.kind:
        case "command":
            return opencode.shell(move.text)
        case "question":
            return codex.call("question", questions=[ASKED])
        case "tool":
            return codex.call(move.text, **ASKED_BY_TOOL)
        case "fail" if move.text == "overflow":
            return codex.refuse(400, TOO_LONG, "context_length_exceeded")
        case _:
            return _speak_plainly(move)


def _speak_plainly(move: Move) -> codex.Reply:
    match move.kind:
        case "begin":
            return codex.begin(move.text)
        case "drop":
            return codex.say(move.text, ending="drop")
        case "fail":
            return codex.refuse(move.status, move.text)
        case _:
            return codex.say(move.text)


def speak_acp(move: Move, tool: str = "run_shell_command") -> acp.Reply:
    match move.kind:
        case "begin":
            return acp.Reply(move.text, ending="stall")
        case "drop":
            return acp.Reply(move.text, ending="drop")
        case "command":
            given = {"command": move.text, "description": "run it"}
            return acp.Reply(tool=tool, given=given if tool == "bash" else {**given, "is_background": False})
        case "tool":
            return acp.Reply(tool=move.text, given=ASKED_BY_TOOL)
        case "fail":
            return acp.Reply(TOO_LONG if move.text == "overflow" else move.text, status=move.status)
        case _:
            return acp.Reply(move.text)
