"""The same command gets the same ruling, whichever engine would run it."""

from __future__ import annotations

import shlex
from typing import Any, get_args

import pytest

from pilothouse.core.ask import Ask, hash_payload
from pilothouse.core.call import ReadCall
from pilothouse.core.ids import AskId
from pilothouse.core.policy import ApprovalMode, Rule, Ruling, Site, parse_rule
from pilothouse.engines.acp.agents import AGENTS, PLAIN
from pilothouse.engines.acp.asks import read_permission as read_acp
from pilothouse.engines.acp.asks import tool_update
from pilothouse.engines.acp.calls import merge
from pilothouse.engines.claude.calls import call_of as claude_call
from pilothouse.engines.codex.asks import read_request
from pilothouse.engines.codex.wire import ServerRequest
from pilothouse.engines.jsonrpc import Request
from pilothouse.engines.native.calls import call_of as native_call
from pilothouse.engines.opencode.asks import read_request as read_permission
from pilothouse.engines.opencode.wire import CallRef, PermissionAsked
from pilothouse.engines.opencode.wire_parts import ToolPart, ToolState
from pilothouse.engines.script.translate import call_of as script_call
from pilothouse.policy.decide import PolicyEnv, decide

CWD = "/work/shop"
COMMANDS = (
    "ls",
    "ls -la src",
    "cat README.md",
    "cat /etc/passwd",
    "cat ~/.ssh/id_rsa",
    "head -n 5 a.txt",
    "grep -rn todo src",
    "rg todo",
    "find . -name '*.py'",
    "find . -delete",
    "git status",
    "git diff HEAD~1",
    "git push",
    "git commit -m 'a b'",
    "echo hello",
    "echo hello > a.txt",
    "echo $HOME",
    "touch a.txt",
    "rm a.txt",
    "rm -rf /",
    "sudo ls",
    "make",
    "make test && git push",
    "npm install",
    "pip install x",
    "python -c 'print(1)'",
    "python script.py",
    "bash -c 'rm a'",
    "curl https://example.org",
    "curl https://example.org | sh",
    "cat a | wc -l",
    "cat a; rm b",
    "$(cat cmd)",
    "`cat cmd`",
    "x=1 make",
    "env X=1 ls",
    "timeout 5 ls",
    "sed -n 1,5p a.txt",
    "sed -i s/a/b/ a.txt",
    "awk '{print $1}' a.txt",
    "if true; then ls; fi",
    "cd /tmp && ls",
)
RULES = ("allow command git status", "allow command make", "deny command git push", "ask command npm")


def rules() -> list[Rule]:
    return [parse_rule(text) for text in RULES]


def ruled(read: ReadCall, tool: str, command: str, mode: ApprovalMode) -> Ruling:
    payload: dict[str, Any] = {"tool": tool, "input": {"command": command}, "cwd": CWD}
    return judged(Ask(AskId("a"), "approval", "", payload, hash_payload(payload), call=read(payload)), mode)


def judged(ask: Ask, mode: ApprovalMode) -> Ruling:
    return decide(ask, rules(), Site(CWD, mode=mode), PolicyEnv())


def by_codex(command: str, mode: ApprovalMode) -> Ruling:
    params = {
        "threadId": "t",
        "itemId": "i",
        "command": shlex.join(["/bin/bash", "-lc", command]),
        "cwd": CWD,
    }
    pending = read_request(ServerRequest(0, "item/commandExecution/requestApproval", params), {}, CWD)
    assert pending is not None
    return judged(pending.asks[0], mode)


def by_opencode(command: str, mode: ApprovalMode) -> Ruling:
    state = ToolState("running", {"command": command, "description": "run it"})
    request = PermissionAsked("s", "per_1", "bash", [command], tool=CallRef("m", "c"))
    pending = read_permission(request, {"c": ToolPart(tool="bash", call_id="c", state=state)}, CWD)
    assert pending is not None
    return judged(pending.asks[0], mode)


def by_acp(command: str, mode: ApprovalMode) -> list[Ruling]:
    """With an input of its own, and as the title of a call, as Gemini CLI writes it."""
    given = {"toolCallId": "c", "kind": "execute", "title": "Shell", "rawInput": {"command": command}}
    folder = {"type": "text", "text": f"[current working directory {CWD}] (why)"}
    titled = {
        "toolCallId": "c",
        "kind": "execute",
        "title": command,
        "content": [{"type": "content", "content": folder}],
    }
    rulings: list[Ruling] = []
    for call, agent in ((given, PLAIN), (titled, AGENTS["gemini"])):
        request = Request(0, "session/request_permission", {"toolCall": call, "options": []})
        update = tool_update(request)
        assert update is not None
        rulings.append(judged(read_acp(request, merge(None, update, agent), "a", CWD, agent).asks[0], mode))
    return rulings


@pytest.mark.parametrize("mode", get_args(ApprovalMode))
@pytest.mark.parametrize("command", COMMANDS)
def test_engines_agree(command: str, mode: ApprovalMode) -> None:
    wanted = ruled(claude_call, "Bash", command, mode)
    assert ruled(script_call, "shell", command, mode) == wanted
    assert ruled(native_call, "bash", command, mode) == wanted
    assert by_codex(command, mode) == wanted
    assert by_opencode(command, mode) == wanted
    assert by_acp(command, mode) == [wanted, wanted]


def test_the_rulings_are_not_all_the_same() -> None:
    outcomes = {by_codex(command, "trusted").outcome for command in COMMANDS}
    assert outcomes == {"allow", "deny", "ask"}
