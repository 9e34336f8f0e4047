"""A person changes the input of an ask: the call is read anew, also of an ask from before calls were stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call, ReadCall
from pilothouse.core.ids import AskId
from pilothouse.engines.claude.calls import call_of
from pilothouse.policy.decide import PolicyEnv, tool_class
from pilothouse.runtime.asks.show import complete_call, with_input

OLD = Ask(AskId("a"), "approval", "make", {"tool": "Bash", "input": {"command": "make"}, "cwd": "/w"})
PLAIN = Ask(AskId("a"), "approval", "Shall I?", {"kind": "approval"})
OWN = Ask(AskId("a"), "approval", "Shall I?", {"kind": "approval"}, call=Call("command", command="make"))


def not_read(payload: Mapping[str, Any]) -> Call | None:
    return None


@pytest.mark.parametrize(
    ("ask", "read", "call", "class_"),
    [
        (OLD, call_of, Call("command", "Bash", "/w", "ls", shown=("command",)), "ordinary"),
        (OLD, not_read, Call("unreadable", "Bash"), "destructive"),
        (OWN, call_of, Call("unreadable"), "destructive"),
        (PLAIN, call_of, None, "ordinary"),
    ],
)
def test_a_changed_input_is_read_by_the_engine_or_counts_as_unreadable(
    ask: Ask, read: ReadCall, call: Call | None, class_: str
) -> None:
    changed = with_input(ask, {"command": "ls"}, read)
    assert changed.payload == {**ask.payload, "input": {"command": "ls"}}
    assert changed.call == call
    assert tool_class(changed.call, "/w", PolicyEnv()) == class_


def test_the_texts_of_a_call_can_be_stored() -> None:
    ask = Ask(AskId("a"), "approval", "x", call=Call("command", command="echo \ud800", paths=("\udfff",)))
    call = complete_call(ask)
    assert call is not None
    assert "\ud800" not in call.command and "\udfff" not in call.paths
