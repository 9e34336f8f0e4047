"""The control protocol with one process, line by line, without one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ids import AskId
from pilothouse.core.policy import Ruling, Site
from pilothouse.engines.claude import control, wire
from pilothouse.engines.claude.gate import Dialogue, Gate
from pilothouse.testing.policy import FixedPolicy

pytestmark = pytest.mark.anyio
CWD = "/work/shop"


def dialogue(ruling: Ruling | None = None) -> Dialogue:
    policy = FixedPolicy()

    async def judge(ask: Ask) -> Ruling:
        return ruling or await policy.judge(ask, Site(CWD))

    return Dialogue(Gate(judge, CWD))


def request(id: str, **fields: Any) -> wire.Heard:
    return wire.decode(json.dumps({"type": "control_request", "request_id": id, "request": fields}).encode())


def hook(tool: Any, given: Any, id: str = "h1", **more: Any) -> wire.Heard:
    told = {"tool_name": tool, "tool_input": given, **more}
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
        ("Bash", {"command": "make"}, "ask"),
        ("AskUserQuestion", {"questions": []}, "ask"),
        ("ExitPlanMode", {}, "ask"),
        (None, {}, "deny"),
        ("Bash", None, "deny"),
    ],
)
async def test_every_call_is_ruled_at_the_gate(tool: Any, given: Any, decision: str) -> None:
    assert decision_of(await dialogue().take(hook(tool, given))) == decision


async def test_a_question_goes_to_a_person_even_where_everything_is_allowed() -> None:
    allowing = dialogue(Ruling("allow"))
    assert decision_of(await allowing.take(hook("Bash", {"command": "make"}))) == "allow"
    assert decision_of(await allowing.take(hook("AskUserQuestion", {}))) == "ask"


async def test_the_rule_that_denies_is_told() -> None:
    (reply,) = replies(
        await dialogue(Ruling("deny", "no pushes")).take(hook("Bash", {"command": "git push"}))
    )
    assert reply["response"]["hookSpecificOutput"]["permissionDecisionReason"] == "no pushes"


async def test_the_judge_sees_the_call_and_where_the_program_is() -> None:
    seen: list[Ask] = []

    async def judge(ask: Ask) -> Ruling:
        seen.append(ask)
        return Ruling("ask")

    talk = Dialogue(Gate(judge, CWD))
    await talk.take(hook("Read", {"file_path": "a.txt"}))
    await talk.take(hook("Read", {"file_path": "a.txt"}, cwd="/work/shop/src"))
    assert [ask.payload["cwd"] for ask in seen] == [CWD, "/work/shop/src"]
    assert seen[0].payload == {"tool": "Read", "input": {"file_path": "a.txt"}, "cwd": CWD}


async def test_an_ask_is_answered_once_and_only_while_it_is_open() -> None:
    talk = dialogue()
    assert await talk.take(ask("Bash", {"command": "make"})) == []
    assert talk.asking
    assert talk.answer(AskId("other"), Decision("allow")) == []
    (reply,) = replies(talk.answer(AskId("a1"), Decision("allow")))
    assert reply["response"]["behavior"] == "allow"
    assert talk.answer(AskId("a1"), Decision("deny")) == []
    assert not talk.asking


async def test_a_no_to_one_of_several_questions_is_the_answer_to_all() -> None:
    questions = [{"question": "Which colour?"}, {"question": "Which size?"}, {"question": "How many?"}]
    talk = dialogue()
    await talk.take(ask("AskUserQuestion", {"questions": questions}))
    assert talk.answer(AskId("a1"), Decision("answer", text="red")) == []
    assert talk.other_asks(AskId("a1:1")) == (AskId("a1:2"),)
    (reply,) = replies(talk.answer(AskId("a1:1"), Decision("deny", text="later")))
    assert (reply["response"]["behavior"], reply["response"]["message"]) == ("deny", "later")
    assert not talk.asking
    assert talk.answer(AskId("a1:2"), Decision("answer", text="two")) == []


async def test_a_withdrawn_ask_cannot_be_answered() -> None:
    talk = dialogue()
    await talk.take(ask("Bash", {"command": "make"}))
    await talk.take(wire.decode(b'{"type":"control_cancel_request","request_id":"a1"}'))
    assert talk.answer(AskId("a1"), Decision("allow")) == []


async def test_whatever_the_cli_asks_is_answered() -> None:
    talk = dialogue()
    (unknown,) = replies(await talk.take(request("u1", subtype="read_minds")))
    assert (unknown["subtype"], unknown["request_id"]) == ("error", "u1")
    (server,) = replies(await talk.take(request("m1", subtype="mcp_message", server_name="x", message={})))
    assert server["subtype"] == "error"


@pytest.mark.parametrize(
    "odd", [{"callback_id": 7}, {"input": "ls"}, {"callback_id": None}, {"tool_use_id": ["t1"]}]
)
async def test_a_hook_of_a_shape_that_we_do_not_know_is_denied(odd: dict[str, Any]) -> None:
    whole = {"callback_id": "gate", "tool_use_id": "t1", "input": {"tool_name": "Bash"}}
    talk = dialogue(Ruling("allow"))
    assert decision_of(await talk.take(request("h1", subtype="hook_callback", **{**whole, **odd}))) == "deny"
    assert talk.gate.seen == set(), "should it run all the same, it never came by"


@pytest.mark.parametrize("odd", [{"tool_name": None}, {"input": "ls"}, {"tool_use_id": 7}])
async def test_a_permission_request_of_a_shape_that_we_do_not_know_is_denied_and_the_turn_goes_on(
    odd: dict[str, Any],
) -> None:
    talk = dialogue()
    asked = {"tool_name": "Bash", "input": {"command": "ls"}, "tool_use_id": "t1", **odd}
    (reply,) = replies(await talk.take(request("a1", subtype="can_use_tool", **asked)))
    assert (reply["subtype"], reply["response"]["behavior"]) == ("success", "deny")
    assert reply["response"]["message"] and "interrupt" not in reply["response"]
    assert not talk.asking


async def test_a_reply_reaches_whoever_waits_for_it_once() -> None:
    talk, heard = dialogue(), list[Any]()
    line = json.loads(talk.request(control.INTERRUPT, heard.append))
    told = {"subtype": "success", "request_id": line["request_id"], "response": {"cancelled": ["u"]}}
    reply = wire.decode(json.dumps({"type": "control_response", "response": told}).encode())
    await talk.take(reply)
    await talk.take(reply)
    assert [one.response for one in heard] == [{"cancelled": ["u"]}]


def test_every_line_is_one_line_of_json_whatever_people_type() -> None:
    line = control.user_line("a\nb \ud800 @/etc/passwd /clear", "u1")
    assert b"\n" not in line
    sent = json.loads(line)
    assert sent["client_composed"] is True
    assert sent["message"]["role"] == "user"
