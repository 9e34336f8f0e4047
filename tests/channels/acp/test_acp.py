"""`pilothouse acp` whole: an editor's conversation, with permissions, forms, modes, history and cancels."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.channels.acp.client_rig import FORMS, SCRIPT, Client, selected, write_home
from tests.channels.rpc.client_rig import LONG_SCRIPT, wait_for_row
from tests.channels.stdio_rig import Frame

IMAGE = {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}
PERMISSION = "session/request_permission"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    write_home(tmp_path, SCRIPT)
    with Client(tmp_path) as client:
        yield client


def test_a_prompt_streams_its_turn_and_asks_for_permission(client: Client) -> None:
    told = client.initialize()
    assert told["protocolVersion"] == 1 and told["agentCapabilities"]["loadSession"] is True
    session = client.new()
    client.answers[PERMISSION] = selected("allow")
    assert client.say(session, "approve this") == {"stopReason": "end_turn"}
    kinds = [one["sessionUpdate"] for one in client.updates()]
    shown = ["agent_message_chunk", "plan", "tool_call", "tool_call_update"]
    assert [kind for kind in kinds if kind in shown][:4] == shown
    assert client.text() == "Let me look.Done."
    entries = client.updates("plan")[0]["entries"]
    assert [one["status"] for one in entries] == ["completed", "in_progress"]
    asked = next(frame["params"] for frame in client.frames if frame.get("method") == PERMISSION)
    assert asked["toolCall"]["title"] == "git push" or "git push" in str(asked["toolCall"])
    assert asked["options"][0]["kind"] == "allow_once"
    done = client.updates("tool_call_update")[-1]
    assert done["status"] == "completed" and done["rawOutput"] == "pushed"
    usage = client.updates("usage_update")[-1]
    assert (usage["used"], usage["size"]) == (1200, 200000)
    assert usage["cost"] == {"amount": 0.5, "currency": "USD"}
    client.answers[PERMISSION] = selected("deny")
    assert client.say(session, "approve this")["stopReason"] in ("end_turn", "cancelled")


def test_a_change_is_asked_for_with_its_diff(client: Client) -> None:
    client.initialize()
    client.answers[PERMISSION] = selected("allow")
    client.say(client.new(), "edit")
    asked = next(frame["params"] for frame in client.frames if frame.get("method") == PERMISSION)
    diff = {"type": "diff", "path": "/srv/a.py", "oldText": "1", "newText": "2"}
    assert diff in asked["toolCall"]["content"] and asked["toolCall"]["kind"] == "edit"


def test_questions_are_forms_where_the_client_has_them(client: Client) -> None:
    client.initialize(**FORMS)
    session = client.new()
    client.answers["elicitation/create"] = lambda frame: {
        "action": "accept",
        "content": {
            "answer": "Ada"
            if "oneOf" not in (field := frame["params"]["requestedSchema"]["properties"]["answer"])
            else field["oneOf"][1]["const"]
        },
    }
    client.say(session, "colour")
    client.say(session, "name")
    assert "Blue it is" in client.text() and client.text().endswith("Ada it is")


def test_a_client_without_forms_gets_the_options_as_a_permission(client: Client) -> None:
    client.initialize()
    session = client.new()
    client.answers[PERMISSION] = lambda frame: selected(frame["params"]["options"][0]["optionId"])
    client.say(session, "colour")
    assert client.text().endswith("Red it is")
    client.say(session, "name")
    assert "cannot show" in client.text()


def test_a_cancel_ends_the_prompt_wherever_it_is_and_the_next_one_works(client: Client) -> None:
    client.initialize(**FORMS)
    session = client.new()
    for text, wanted in (
        ("wait", "session/update"),
        ("approve", PERMISSION),
        ("colour", "elicitation/create"),
        ("again", ""),
    ):
        id = client.prompt(session, text if wanted else "wait")
        shown = client.until(partial(is_shown, wanted)) if wanted else {}
        client.send("session/cancel", {"sessionId": session})
        assert client.until_answer(id)["result"] == {"stopReason": "cancelled"}
        if "id" in shown:
            closed = [frame["params"] for frame in client.frames if frame.get("method") == "$/cancel_request"]
            assert {"requestId": shown["id"]} in closed
        assert client.say(session, "hello") == {"stopReason": "end_turn"}


def is_shown(method: str, frame: Frame) -> bool:
    """True for a request of this method, and for the start of a tool."""
    if frame.get("method") != method:
        return False
    return method != "session/update" or frame["params"]["update"]["sessionUpdate"] == "tool_call"


def test_a_failed_turn_and_wrong_requests_are_answered_with_the_reason(client: Client) -> None:
    assert client.call("session/list")["error"]["code"] == -32600
    client.initialize()
    session = client.new()
    assert "broke" in client.until_answer(client.prompt(session, "break"))["error"]["message"]
    text = [{"type": "text", "text": "hi"}]
    wrong: tuple[tuple[str, dict[str, Any], int], ...] = (
        ("session/prompt", {"sessionId": "acp:/x", "prompt": text}, -32002),
        ("session/prompt", {"sessionId": session, "prompt": []}, -32602),
        ("session/prompt", {"sessionId": session, "prompt": [{"type": "audio", "data": ""}]}, -32602),
        ("session/prompt", {"sessionId": session, "prompt": "text"}, -32602),
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
        ("session/load", {"sessionId": "acp:none", "cwd": client.cwd, "mcpServers": []}, -32002),
        ("session/set_mode", {"sessionId": session, "modeId": "god"}, -32602),
        ("session/set_config_option", {"sessionId": session, "configId": "engine", "value": "none"}, -32602),
        ("session/prompt", {"sessionId": session, "prompt": [{**IMAGE, "data": "é"}]}, -32602),
        ("session/new", {"cwd": "/" + "x" * 5000, "mcpServers": []}, -32602),
        ("session/new", {"cwd": "/a\0b", "mcpServers": []}, -32602),
        ("session/list", {"cursor": "x"}, -32602),
        ("session/list", {"cursor": "1" * 5000}, -32602),
        ("session/fork", {"sessionId": session}, -32601),
    )
    for method, params, code in wrong:
        assert client.call(method, **params)["error"]["code"] == code, method


def test_modes_and_options_can_be_chosen(client: Client) -> None:
    client.initialize()
    told = client.call("session/new", cwd=client.cwd, mcpServers=[])["result"]
    session = told["sessionId"]
    assert told["modes"]["currentModeId"] == "minimal" and len(told["modes"]["availableModes"]) == 3
    assert client.call("session/set_mode", sessionId=session, modeId="trusted")["result"] == {}
    chosen = client.call("session/set_config_option", sessionId=session, configId="mode", value="full-access")
    values = {one["id"]: one["currentValue"] for one in chosen["result"]["configOptions"]}
    assert values == {"mode": "full-access", "engine": "script"}
    chosen = client.call("session/set_config_option", sessionId=session, configId="engine", value="script")
    assert "result" in chosen
    commands = {one["name"] for one in client.updates("available_commands_update")[0]["availableCommands"]}
    assert {"status", "model"} <= commands
    assert client.say(session, "/status") == {"stopReason": "end_turn"}
    assert "script" in client.text()


def test_a_session_is_listed_loaded_resumed_and_closed_by_another_client(
    client: Client, tmp_path: Path
) -> None:
    client.initialize()
    session = client.new()
    client.answers[PERMISSION] = selected("allow")
    client.say(session, "approve this")
    told = [one for one in client.updates() if one["sessionUpdate"] != "session_info_update"]
    with Client(tmp_path) as other:
        other.initialize()
        listed = other.call("session/list", cwd=other.cwd)["result"]["sessions"]
        assert [(one["sessionId"], one["title"]) for one in listed] == [(session, "approve this")]
        opened: dict[str, Any] = {"sessionId": session, "cwd": other.cwd, "mcpServers": []}
        assert "modes" in other.call("session/load", **opened)["result"]
        replayed = other.updates()
        assert replayed[0]["content"]["text"] == "approve this"
        assert replayed[1:] == [one for one in told if one["sessionUpdate"] != "available_commands_update"]
        client.say(session, "hello")
        other.until(lambda frame: "heard: hello" in str(frame))
        said = [one["content"]["text"] for one in other.updates("user_message_chunk")]
        assert said == ["approve this", "hello"]
        assert other.call("session/close", sessionId=session)["result"] == {}
        other.frames.clear()
        assert "modes" in other.call("session/resume", **opened)["result"]
        assert [one["sessionUpdate"] for one in other.updates()] in ([], ["available_commands_update"])
        assert other.say(session, "more") == {"stopReason": "end_turn"}
    client.close()
    assert client.program.wait(60) == 0


def test_a_prompt_that_is_the_last_line_of_the_input_is_stored_and_ends(tmp_path: Path) -> None:
    write_home(tmp_path, SCRIPT)
    with Client(tmp_path) as client:
        client.initialize()
        client.prompt(client.new(), "hello")
        client.close()
        assert client.program.wait(60) == 0
    with closing(sqlite3.connect(tmp_path / "pilothouse.db")) as store:
        assert store.execute("SELECT status FROM turns").fetchall() == [("done",)]


def test_images_reach_the_engine_and_other_kinds_are_refused(client: Client) -> None:
    client.initialize()
    session = client.new()
    link = {"type": "resource_link", "name": "a.py", "uri": "file:///srv/a.py"}
    inside = {"type": "resource", "resource": {"uri": "file:///srv/b.py", "text": "b = 1"}}
    told = client.call("session/prompt", sessionId=session, prompt=[IMAGE, link, inside])
    assert told["result"] == {"stopReason": "end_turn"}
    assert "[a.py](/srv/a.py)" in client.text() and "b = 1" in client.text()
    wrong = {**IMAGE, "mimeType": "text/html"}
    assert client.call("session/prompt", sessionId=session, prompt=[wrong])["error"]["code"] == -32602


def test_a_prompt_that_ended_before_its_session_was_loaded_again_is_answered(tmp_path: Path) -> None:
    write_home(tmp_path, LONG_SCRIPT)
    with Client(tmp_path) as client:
        client.initialize()
        client.answers[PERMISSION] = selected("allow")
        session = client.new()
        for text, stored in (
            ("many", "turns WHERE status = 'done'"),
            ("many, then ask", "asks WHERE state = 'open'"),
        ):
            prompt = client.prompt(session, text)
            wait_for_row(tmp_path, stored)
            load = client.ask("session/load", sessionId=session, cwd=client.cwd, mcpServers=[])
            answers: dict[str, Frame] = {}
            while answers.keys() != {prompt, load}:
                told = client.until(lambda frame: "result" in frame)
                answers[told["id"]] = told
            assert answers[prompt]["result"] == {"stopReason": "end_turn"}


def test_a_session_can_be_closed_twice_while_a_prompt_runs(client: Client) -> None:
    client.initialize()
    session = client.new()
    prompt = client.prompt(session, "wait")
    client.until(partial(is_shown, "session/update"))
    asked = {client.ask("session/close", sessionId=session) for _ in range(2)}
    answers: dict[str, Frame] = {}
    while answers.keys() != asked | {prompt}:
        told = client.until(lambda frame: "id" in frame)
        answers[told["id"]] = told
    assert answers[prompt]["result"] == {"stopReason": "cancelled"}
    assert all(answers[id]["result"] == {} for id in asked)
    assert client.new()
