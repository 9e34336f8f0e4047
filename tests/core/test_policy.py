"""Rulings where there are no rules."""

from typing import Any

import pytest

from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId
from pilothouse.core.policy import (
    ApprovalMode,
    PolicyOutcome,
    Site,
)
from pilothouse.engines.claude.calls import call_of
from pilothouse.policy.decide import PolicyEnv, decide


def approval(tool: str, cwd: str | None = "/work/shop", **given: Any) -> Ask:
    payload: dict[str, Any] = {"tool": tool, "input": given}
    if cwd is not None:
        payload["cwd"] = cwd
    return Ask(AskId("a"), "approval", tool, payload, call=call_of(payload))


def ruled(ask: Ask, mode: ApprovalMode = "minimal") -> PolicyOutcome:
    return decide(ask, (), Site("/work/shop", mode=mode), PolicyEnv()).outcome


@pytest.mark.parametrize(
    ("ask", "outcome"),
    [
        (approval("Read", file_path="/work/shop/a.py"), "allow"),
        (approval("Read", file_path="a.py"), "allow"),
        (approval("Glob", pattern="**/*.py"), "allow"),
        (approval("Grep", pattern="/etc/passwd"), "allow"),
        (approval("LS", path="/work/shop"), "allow"),
        (approval("TaskList"), "allow"),
        (approval("Read", file_path="/etc/passwd"), "ask"),
        (approval("Read", file_path="/work/shop/../other/key"), "ask"),
        (approval("Read", file_path="/work/shopping/list"), "ask"),
        (approval("Read", file_path="~/.ssh/id_ed25519"), "ask"),
        (approval("Read", file_path=7), "ask"),
        (approval("Read", cwd=None, file_path="/work/shop/a.py"), "ask"),
        (approval("Read", cwd="shop", file_path="shop/a.py"), "ask"),
        (approval("Glob", pattern="/etc/*"), "ask"),
        (approval("Glob", pattern="*", path="/etc"), "ask"),
        (approval("Grep", pattern="x", path=".."), "ask"),
        (approval("Bash", command="ls"), "allow"),
        (approval("Bash", command="make"), "ask"),
        (approval("Write", file_path="/work/shop/a.py"), "ask"),
        (approval("mcp__files__Read", file_path="/work/shop/a.py"), "ask"),
        (approval("WebFetch", url="https://example.org"), "ask"),
    ],
)
def test_without_rules_only_reading_inside_the_workspace_needs_nobody(
    ask: Ask, outcome: PolicyOutcome
) -> None:
    assert ruled(ask) == outcome


def test_a_question_goes_to_a_person_in_every_mode() -> None:
    question = Ask(AskId("q"), "question", "Which colour?", {"tool": "Read", "input": {}, "cwd": "/"})
    assert ruled(question, "full-access") == "ask"
