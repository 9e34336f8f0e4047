"""The control protocol with one process, line by line, without one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId
from pilothouse.core.policy import DefaultPolicy, Ruling
from pilothouse.engines.claude import sending, wire
from pilothouse.engines.claude.dialogue import Dialogue
from pilothouse.engines.claude.gate import Gate, what_is_meant

CWD = "/work/shop"


def plain(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}".rstrip("/")


def dialogue(ruling: Ruling | None = None) -> Dialogue:
    policy = DefaultPolicy()
    return Dialogue(Gate(lambda ask: ruling or policy.judge(ask), CWD, plain))


def request(id: str, **fields: Any) -> wire.Heard:
    return wire.decode(json.dumps({"type": "control_request", "request_id": id, "request": fields}).encode())


def hook(tool: Any, given: Any, id: str = "h1") -> wire.Heard:
    told = {"tool_name": tool, "tool_input": given}
    return request(id, subtype="hook_callback", callback_id="gate", input=told, tool_use_id="t1")


def ask(tool: str, given: dict[str, Any], id: str = "a1", **fields: Any) -> wire.Heard:
    return request(id, subtype="can_use_tool", tool_name=tool, input=given, tool_use_id="t1", **fields)


def replies(lines: list[bytes]) -> list[Any]:
    return [json.loads(line)["response"] for line in lines]


def decision_of(lines: list[bytes]) -> str:
    (reply,) = replies(lines)
    assert reply["subtype"] == "success", "an error to a hook counts as no opinion"
    return reply["response"]["hookSpecificOutput"]["permissionDecision"]


@pytest.mark.parametrize(
    ("tool", "given", "decision"),
    [
        ("Read", {"file_path": "a.py"}, "allow"),
        ("Read", {"file_path": "/etc/passwd"}, "ask"),
        ("Bash", {"command": "ls"}, "ask"),
        ("AskUserQuestion", {"questions": []}, "ask"),
        ("ExitPlanMode", {}, "ask"),
        (None, {}, "deny"),
        ("Bash", None, "deny"),
    ],
)
def test_every_call_is_ruled_at_the_gate(tool: Any, given: Any, decision: str) -> None:
    assert decision_of(dialogue().take(hook(tool, given))) == decision


def test_a_question_goes_to_a_person_even_where_everything_is_allowed() -> None:
    allowing = dialogue(Ruling("allow"))
    assert decision_of(allowing.take(hook("Bash", {"command": "make"}))) == "allow"
    assert decision_of(allowing.take(hook("AskUserQuestion", {}))) == "ask"


def test_the_rule_that_denies_is_told() -> None:
    (reply,) = replies(dialogue(Ruling("deny", "no pushes")).take(hook("Bash", {"command": "git push"})))
    assert reply["response"]["hookSpecificOutput"]["permissionDecisionReason"] == "no pushes"


def test_the_judge_sees_where_links_lead() -> None:
    seen: list[Ask] = []

    def judge(ask: Ask) -> Ruling:
        seen.append(ask)
        return Ruling("ask")

    gate = Gate(judge, CWD, lambda folder, path: "/etc/passwd" if path else "/real/shop")
    Dialogue(gate).take(hook("Read", {"file_path": "innocent.txt"}))
    assert seen[0].payload == {"tool": "Read", "input": {"file_path": "/etc/passwd"}, "cwd": "/real/shop"}


def test_an_ask_is_answered_once_and_only_while_it_is_open() -> None:
    talk = dialogue()
    assert talk.take(ask("Bash", {"command": "make"})) == []
    assert talk.asking
    assert talk.answer(AskId("other"), Decision("allow")) == []
    (reply,) = replies(talk.answer(AskId("a1"), Decision("allow")))
    assert reply["response"]["behavior"] == "allow"
    assert talk.answer(AskId("a1"), Decision("deny")) == []
    assert not talk.asking


def test_a_withdrawn_ask_cannot_be_answered() -> None:
    talk = dialogue()
    talk.take(ask("Bash", {"command": "make"}))
    talk.take(wire.decode(b'{"type":"control_cancel_request","request_id":"a1"}'))
    assert talk.answer(AskId("a1"), Decision("allow")) == []


def test_what_is_allowed_for_the_session_passes_the_gate_next_time() -> None:
    talk = dialogue()
    talk.take(ask("Bash", {"command": "make", "description": "one"}))
    talk.answer(AskId("a1"), Decision("allow", remember="session"))
    assert decision_of(talk.take(hook("Bash", {"command": "make", "description": "two"}))) == "allow"
    assert decision_of(talk.take(hook("Bash", {"command": "make install"}))) == "ask"


def test_a_denied_call_is_not_remembered() -> None:
    talk = dialogue()
    talk.take(ask("Bash", {"command": "make"}))
    talk.answer(AskId("a1"), Decision("deny", text="no", remember="session"))
    assert decision_of(talk.take(hook("Bash", {"command": "make"}))) == "ask"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("Write", {"file_path": "/w/a", "content": "1"}), ("Edit", {"file_path": "/w/a"}), True),
        (("Write", {"file_path": "/w/a"}), ("Write", {"file_path": "/w/b"}), False),
        (("WebFetch", {"url": "https://a.org/1"}), ("WebFetch", {"url": "https://a.org/2"}), True),
        (("WebFetch", {"url": "https://a.org"}), ("WebFetch", {"url": "https://a.org.evil.net"}), False),
        (("Bash", {"command": "a"}), ("Bash", {"command": "a; b"}), False),
        (("mcp__x__y", {"n": 1}), ("mcp__x__y", {"n": 2}), False),
    ],
)
def test_an_allow_for_the_session_covers_this_very_thing(one: Any, other: Any, same: bool) -> None:
    assert (what_is_meant(*one) == what_is_meant(*other)) is same


def test_whatever_the_cli_asks_is_answered() -> None:
    talk = dialogue()
    (unknown,) = replies(talk.take(request("u1", subtype="read_minds")))
    assert (unknown["subtype"], unknown["request_id"]) == ("error", "u1")
    (server,) = replies(talk.take(request("m1", subtype="mcp_message", server_name="x", message={})))
    assert server["subtype"] == "error"


def test_a_reply_reaches_whoever_waits_for_it_once() -> None:
    talk, heard = dialogue(), list[Any]()
    line = json.loads(talk.request(sending.INTERRUPT, heard.append))
    told = {"subtype": "success", "request_id": line["request_id"], "response": {"cancelled": ["u"]}}
    reply = wire.decode(json.dumps({"type": "control_response", "response": told}).encode())
    talk.take(reply)
    talk.take(reply)
    assert [one.response for one in heard] == [{"cancelled": ["u"]}]


def test_every_line_is_one_line_of_json_whatever_people_type() -> None:
    line = sending.user_line("a\nb \ud800 @/etc/passwd /clear", "u1")
    assert b"\n" not in line
    sent = json.loads(line)
    assert sent["client_composed"] is True
    assert sent["message"]["role"] == "user"
