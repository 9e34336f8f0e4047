"""The requests of one turn, one by one, without a process: judged, asked, answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.engine import Brief
from pilothouse.core.event import AskChanged, Asked
from pilothouse.core.ids import AskId, SessionId
from pilothouse.core.policy import NO_RULE, Ruling, Site
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.asks import read_request
from pilothouse.engines.codex.dialogue import Dialogue
from pilothouse.engines.codex.translate import TurnTranslator
from pilothouse.engines.codex.usage import TurnUsage

pytestmark = pytest.mark.anyio
CWD = "/work/shop"
THREAD = "01a1e073-6613-7e33-879d-36dcc30b87ce"


class Talk:
    """One turn, and the judge's ruling about everything."""

    def __init__(self, ruling: Ruling = NO_RULE, *, guarded: bool = True) -> None:
        self.judged: list[Ask] = []
        self.turn = TurnTranslator(THREAD, TurnUsage(""), cwd=CWD)
        self.turn.begin()
        self.turn.turn_id = "turn"
        self._ruling = ruling
        brief = Brief(SessionId("s"), CWD)
        self.dialogue = Dialogue(self.turn, self._judge, brief, guarded=guarded)

    async def _judge(self, ask: Ask, site: Site) -> Ruling:
        self.judged.append(ask)
        return self._ruling

    async def hear(self, method: str, **params: Any) -> Any:
        return await self.dialogue.consider(request(method, **params))

    def item(self, kind: str, **fields: Any) -> None:
        self.turn.take(told(kind, "item/started", **fields))


def request(method: str, id: int = 0, **params: Any) -> wire.ServerRequest:
    line = {"method": method, "id": id, "params": {"threadId": THREAD, "turnId": "turn", **params}}
    heard = wire.decode(json.dumps(line).encode())
    assert isinstance(heard, wire.ServerRequest)
    return heard


def told(kind: str, method: str, **fields: Any) -> wire.Heard:
    params = {"item": {"type": kind, "id": "i1", **fields}, "threadId": THREAD, "turnId": "turn"}
    return wire.decode(json.dumps({"method": method, "params": params}).encode())


COMMAND = "item/commandExecution/requestApproval"
PATCH = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
ELICITATION = "mcpServer/elicitation/request"
INPUT = "item/tool/requestUserInput"


async def test_what_rules_allow_is_accepted_and_what_they_deny_is_declined_with_the_rule() -> None:
    allowed = await Talk(Ruling("allow")).hear(COMMAND, itemId="i1", command="/bin/bash -lc 'ls -l'")
    assert (allowed.reply, allowed.words, list(allowed.steps)) == ({"decision": "accept"}, "", [])
    denied = await Talk(Ruling("deny", "no listing")).hear(COMMAND, itemId="i1", command="/bin/bash -lc ls")
    assert denied.reply == {"decision": "decline"}
    assert "no listing" in denied.words


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("/bin/bash -lc 'rm -rf build'", "rm -rf build"),
        ("bash -c ls", "ls"),
        ("/usr/bin/zsh -lc 'echo \"a b\"'", 'echo "a b"'),
        ("rg -n plum", "rg -n plum"),
        ("/bin/bash -lc ls extra", "/bin/bash -lc ls extra"),
        ("/bin/bash -lc 'torn", "/bin/bash -lc 'torn"),
    ],
)
async def test_rules_read_the_script_inside_the_shell(command: str, script: str) -> None:
    talk = Talk()
    await talk.hear(COMMAND, itemId="i1", command=command, cwd="/work/shop/sub")
    call = talk.judged[0].call
    assert call is not None
    assert (call.kind, call.command, call.cwd) == ("command", script, "/work/shop/sub")


async def test_a_command_without_words_is_unreadable() -> None:
    talk = Talk()
    await talk.hear(COMMAND, itemId="i1", command=None)
    assert talk.judged[0].call is not None
    assert talk.judged[0].call.kind == "unreadable"


async def test_a_host_is_judged_as_a_host() -> None:
    talk = Talk()
    network = {"host": "example.org", "protocol": "https"}
    await talk.hear(COMMAND, itemId="i1", command="/bin/bash -lc 'curl x'", networkApprovalContext=network)
    call = talk.judged[0].call
    assert call is not None
    assert (call.kind, call.host) == ("web", "example.org")


async def test_a_patch_names_every_path_also_the_one_that_it_moves_to() -> None:
    talk = Talk()
    changes = [
        {
            "path": f"{CWD}/a.py",
            "kind": {"type": "update", "move_path": "/etc/b.py"},
            "diff": "@@ -1 +1 @@\n-a\n+b\n",
        },
        {"path": f"{CWD}/c.py", "kind": {"type": "delete"}, "diff": "gone\n"},
    ]
    talk.item("fileChange", changes=changes, status="inProgress")
    await talk.hear(PATCH, itemId="i1")
    call = talk.judged[0].call
    assert call is not None
    assert call.paths == (f"{CWD}/a.py", "/etc/b.py", f"{CWD}/c.py")
    assert call.change is not None
    assert call.change.diff == (
        "--- a.py\n+++ /etc/b.py\n@@ -1 +1 @@\n-a\n+b\n--- c.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-gone"
    )


@pytest.mark.parametrize("more", [{"itemId": "another"}, {"itemId": "i1", "grantRoot": "/"}])
async def test_a_patch_that_is_not_known_or_wants_a_whole_folder_is_unreadable(more: dict[str, str]) -> None:
    talk = Talk()
    talk.item("fileChange", changes=[{"path": "a", "kind": {"type": "add"}, "diff": "x"}])
    await talk.hear(PATCH, **more)
    assert talk.judged[0].call is not None
    assert talk.judged[0].call.kind == "unreadable"


async def test_permissions_are_granted_for_the_turn_and_never_in_part() -> None:
    wanted = {"network": {"enabled": True}, "fileSystem": None}
    granted = await Talk(Ruling("allow")).hear(PERMISSIONS, itemId="i1", permissions=wanted, cwd=CWD)
    assert granted.reply == {"permissions": wanted, "scope": "turn"}
    refused = await Talk(Ruling("deny", "no")).hear(PERMISSIONS, itemId="i1", permissions=wanted, cwd=CWD)
    assert refused.reply == {"permissions": {}, "scope": "turn"}


def approval_of(tool: str, **given: Any) -> dict[str, Any]:
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_params": given}
    message = f'Allow the shop MCP server to run tool "{tool}"?'
    return {"serverName": "shop", "mode": "form", "_meta": meta, "message": message, "requestedSchema": {}}


async def test_a_servers_tool_is_judged_by_its_name_and_only_if_it_is_running() -> None:
    talk = Talk(Ruling("allow"))
    talk.item("mcpToolCall", server="shop", tool="buy", arguments={"n": 1}, status="inProgress")
    accepted = await talk.hear(ELICITATION, **approval_of("buy", n=1))
    assert accepted.reply == {"action": "accept", "content": {}, "_meta": None}
    await talk.hear(ELICITATION, **approval_of("look", n=1))
    await talk.hear(ELICITATION, **approval_of("buy", n=2))
    kinds = [ask.call.kind for ask in talk.judged if ask.call]
    assert kinds == ["mcp", "unreadable", "unreadable"]
    assert talk.judged[0].call is not None
    assert talk.judged[0].call.server_tool == "buy"


async def test_a_question_is_never_judged_and_waits_for_all_its_answers() -> None:
    talk = Talk(Ruling("allow"))
    asked = [
        {"id": "q1", "question": "Colour?", "options": [{"label": "Red"}, {"label": "Blue"}]},
        {"id": "q2", "question": "Name?", "options": None},
    ]
    considered = await talk.hear(INPUT, itemId="i1", questions=asked)
    first, second = [step.ask for step in considered.steps if isinstance(step, Asked)]
    assert (considered.reply, talk.judged) == (None, [])
    assert talk.dialogue.answer(first.id, Decision("answer", ("2",), text="or green")) is None
    answer = talk.dialogue.answer(second.id, Decision("answer", text="Plum"))
    assert answer is not None
    assert answer.reply == {"answers": {"q1": {"answers": ["Blue", "or green"]}, "q2": {"answers": ["Plum"]}}}
    assert not answer.stops


async def test_a_no_to_one_question_is_the_no_to_all_and_the_others_are_withdrawn() -> None:
    talk = Talk()
    asked = [{"id": "q1", "question": "Colour?"}, {"id": "q2", "question": "Name?"}]
    considered = await talk.hear(INPUT, itemId="i1", questions=asked)
    first, second = [step.ask for step in considered.steps if isinstance(step, Asked)]
    answer = talk.dialogue.answer(first.id, Decision("deny"))
    assert answer is not None
    assert (answer.reply, answer.stops) == ({"answers": {}}, False)
    assert talk.dialogue.note(wire.RequestResolved(THREAD, "turn", 0)) == [AskChanged(second.id, "withdrawn")]
    assert talk.dialogue.answer(second.id, Decision("answer", text="late")) is None


FORM = {
    "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
    "gift": {"type": "boolean", "description": "A gift?"},
    "count": {"type": "integer", "title": "How many?"},
    "extras": {"type": "array", "items": {"enum": ["bow", "card"]}},
}


async def test_a_form_is_a_question_for_each_field() -> None:
    talk = Talk()
    considered = await talk.hear(
        ELICITATION,
        serverName="shop",
        mode="form",
        _meta=None,
        message="Your order",
        requestedSchema={"type": "object", "properties": FORM},
    )
    asks = [step.ask for step in considered.steps if isinstance(step, Asked)]
    assert [option.label for option in asks[0].options] == ["Small", "Large"]
    assert [option.label for option in asks[1].options] == ["Yes", "No"]
    decisions = [
        Decision("answer", ("2",)),
        Decision("answer", ("1",)),
        Decision("answer", text="3"),
        Decision("answer", ("1", "2")),
    ]
    answers = [talk.dialogue.answer(ask.id, one) for ask, one in zip(asks, decisions, strict=True)]
    assert answers[:3] == [None, None, None]
    assert answers[3] is not None
    assert answers[3].reply["content"] == {"size": "l", "gift": True, "count": 3, "extras": ["bow", "card"]}


async def test_a_page_to_visit_is_a_question_and_another_mode_is_declined() -> None:
    page = {
        "serverName": "shop",
        "mode": "url",
        "_meta": None,
        "message": "Log in",
        "url": "https://shop.example/in",
    }
    considered = await Talk().hear(ELICITATION, **page)
    (asked,) = considered.steps
    assert isinstance(asked, Asked)
    assert "https://shop.example/in" in asked.ask.title
    assert await Talk().hear(ELICITATION, **{**page, "mode": "openai/userVerification"}) is None
    assert await Talk().hear("currentTime/read") is None


async def test_a_plain_no_stops_the_turn_and_one_with_words_does_not() -> None:
    for text, stops in (("", True), ("not today", False)):
        talk = Talk()
        considered = await talk.hear(COMMAND, itemId="i1", command="make")
        (asked,) = considered.steps
        assert isinstance(asked, Asked)
        answer = talk.dialogue.answer(asked.ask.id, Decision("deny", text=text))
        assert answer is not None
        assert (answer.stops, text in answer.words) == (stops, True)
        assert answer.reply == {"decision": "cancel" if stops else "decline"}


async def test_an_answer_to_an_ask_that_is_not_open_does_nothing() -> None:
    assert Talk().dialogue.answer(AskId("nothing"), Decision("allow")) is None


async def test_a_call_that_ran_unjudged_is_a_leak() -> None:
    done = told("commandExecution", "item/completed", command="ls", status="completed", source="agent")
    assert Talk().dialogue.leaks(done)
    assert not Talk(guarded=False).dialogue.leaks(done)
    talk = Talk(Ruling("allow"))
    await talk.hear(COMMAND, itemId="i1", command="ls")
    assert not talk.dialogue.leaks(done)


def test_a_call_of_an_earlier_turn_is_no_leak_and_one_of_a_sub_agent_is() -> None:
    done = told("commandExecution", "item/completed", command="ls", status="completed", source="agent")
    assert isinstance(done, wire.ItemCompleted)
    assert not Talk().dialogue.leaks(wire.ItemCompleted(done.item, THREAD, "the turn before"))
    assert Talk().dialogue.leaks(wire.ItemCompleted(done.item, "another thread", "its turn"))


@pytest.mark.parametrize(
    ("kind", "fields", "leaks"),
    [
        ("fileChange", {"status": "completed"}, True),
        ("mcpToolCall", {"status": "completed"}, True),
        ("imageView", {"path": "/etc/passwd"}, True),
        ("commandExecution", {"status": "completed", "source": "unifiedExecInteraction"}, False),
        ("commandExecution", {"status": "declined"}, False),
        ("agentMessage", {"text": "hello"}, False),
    ],
)
def test_items_that_count_as_calls(kind: str, fields: dict[str, Any], leaks: bool) -> None:
    assert Talk().dialogue.leaks(told(kind, "item/completed", **fields)) == leaks


async def test_the_same_request_has_the_same_hash_whatever_its_numbers() -> None:
    given = {"itemId": "i1", "command": "make", "startedAtMs": 5}
    one = read_request(request(COMMAND, 1, **given), {}, CWD)
    other = read_request(request(COMMAND, 7, **given | {"itemId": "i9", "startedAtMs": 9}), {}, CWD)
    assert one is not None
    assert other is not None
    assert one.asks[0].payload_hash == other.asks[0].payload_hash
    assert one.asks[0].id != other.asks[0].id
