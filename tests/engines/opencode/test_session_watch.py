"""States of a watched session, as they follow each other in the database -> events, each told once."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pilothouse.core.errors import EngineError
from pilothouse.core.event import PromptAdded, TextSet, ToolFinished, ToolStarted, TurnEnded, well_formed
from pilothouse.engines.opencode.session_watch import HistoryReader, find_watched

State = list[dict[str, Any]]


def prompt(id: str, text: str) -> dict[str, Any]:
    return {"info": {"id": id, "role": "user"}, "parts": [{"id": f"p{id}", "type": "text", "text": text}]}


def request(id: str, parent: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    named = [{"id": f"{id}.{at}", "messageID": id, **part} for at, part in enumerate(parts)]
    return {"info": {"id": id, "role": "assistant", "parentID": parent, **info}, "parts": named}


def call(status: str) -> dict[str, Any]:
    return {
        "type": "tool",
        "tool": "bash",
        "callID": "c1",
        "state": {"status": status, "input": {"command": "ls"}},
    }


TEXT = {"type": "text", "text": "Done.", "time": {"end": 1}}
OVER = {"finish": "stop", "time": {"completed": 1}}
GOES_ON = {"finish": "tool-calls", "time": {"completed": 1}}
OLD = [prompt("msg_1", "old"), request("msg_2", "msg_1", TEXT, **OVER)]
ASKED = [*OLD, prompt("msg_3", "new")]


def watch(*states: State) -> list[list[str]]:
    """What is told of each state."""
    reader = HistoryReader("ses_x", "/w")
    told = [list(reader.read(state)) for state in states]
    steps: list[Any] = [step for one in told for step in one]
    ends = [at for at, step in enumerate(steps) if isinstance(step, TurnEnded)]
    for begin, end in zip([0, *(at + 1 for at in ends)], ends, strict=False):
        assert list(well_formed(steps[begin : end + 1])) == steps[begin : end + 1]
    return [[words for step in one if (words := shown(step))] for one in told]


def shown(step: object) -> str:
    match step:
        case PromptAdded(text=text):
            return f"› {text}"
        case TextSet(text=text):
            return text
        case ToolStarted():
            return "began"
        case ToolFinished(ok=ok):
            return "worked" if ok else "failed"
        case TurnEnded(outcome=outcome):
            return outcome
        case _:
            return ""


def test_the_last_turn_is_told_and_then_what_is_new() -> None:
    ran = request("msg_4", "msg_3", call("completed"), **GOES_ON)
    assert watch(
        ASKED,
        [*ASKED, request("msg_4", "msg_3", call("pending"))],
        [*ASKED, request("msg_4", "msg_3", call("running"))],
        [*ASKED, request("msg_4", "msg_3", call("running"))],
        [*ASKED, ran],
        [*ASKED, ran, request("msg_5", "msg_3", TEXT)],
        [*ASKED, ran, request("msg_5", "msg_3", TEXT, **OVER)],
        [*ASKED, ran, request("msg_5", "msg_3", TEXT, **OVER)],
    ) == [["› new"], [], ["began"], [], ["worked"], ["Done."], ["completed"], []]


def test_an_ended_session_is_told_at_once_and_nothing_of_before() -> None:
    assert watch(OLD) == [["› old", "Done.", "completed"]]
    assert watch([]) == [[]]


def test_a_second_prompt_joins_the_turn_that_runs_and_begins_one_after_its_end() -> None:
    ran = [*ASKED, request("msg_4", "msg_3", call("completed"), **GOES_ON), prompt("msg_5", "more")]
    done = [*ran, request("msg_6", "msg_5", TEXT, **OVER)]
    assert watch(ran[:-1], ran, done, [*done, prompt("msg_7", "next")]) == [
        ["› new", "began", "worked"],
        ["› more"],
        ["Done.", "completed"],
        ["› next"],
    ]


@pytest.mark.parametrize(("name", "outcome"), [("MessageAbortedError", "cancelled"), ("APIError", "failed")])
def test_an_error_ends_the_turn(name: str, outcome: str) -> None:
    fault = {"error": {"name": name, "data": {"message": "No."}}}
    assert watch([*ASKED, request("msg_4", "msg_3", **fault)]) == [["› new", outcome]]


def test_a_long_turn_whose_prompt_is_no_longer_read_is_told_too() -> None:
    assert watch([request("msg_4", "msg_3", TEXT, **OVER)]) == [["Done.", "completed"]]


def test_another_database_is_one_clear_sentence_and_no_session_of_a_folder(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path)}
    assert find_watched(environment, "ses_abcdef") == []
    path = tmp_path / ".local" / "share" / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    sqlite3.connect(path).execute("CREATE TABLE other (id)").connection.close()
    assert find_watched(environment, str(tmp_path)) == []
    assert find_watched(environment, "abcdef") == []
    with pytest.raises(EngineError, match="Pilothouse knows the one of OpenCode 1"):
        find_watched(environment, "ses_abcdef")
