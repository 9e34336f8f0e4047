"""States of a watched thread, as an app-server tells them -> events, each told once."""

from __future__ import annotations

from typing import Any

from pilothouse.core.event import PromptAdded, TextSet, ToolFinished, TurnEnded
from pilothouse.engines.codex.session_watch import TurnsReader


def turn(id: str, *items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    named = [{"id": f"item-{at}", **item} for at, item in enumerate(items)]
    return {"id": id, "status": "interrupted", "completedAt": None, "items": named, **fields}


def asked(text: str) -> dict[str, Any]:
    return {"type": "userMessage", "content": [{"type": "text", "text": text}]}


RAN = {
    "type": "commandExecution",
    "command": "ls",
    "status": "completed",
    "aggregatedOutput": "",
    "exitCode": 0,
}
SAID = {"type": "agentMessage", "text": "Done."}
OVER = {"status": "completed", "completedAt": 2}


def watch(*states: list[dict[str, Any]]) -> list[list[str]]:
    reader = TurnsReader("thread", "/w")
    return [[words for step in reader.read(state) if (words := shown(step))] for state in states]


def shown(step: object) -> str:
    match step:
        case PromptAdded(text=text) | TextSet(text=text):
            return text
        case ToolFinished():
            return "ran"
        case TurnEnded(outcome=outcome):
            return outcome
        case _:
            return ""


def test_the_last_turn_is_told_and_then_what_is_new() -> None:
    old = turn("t1", asked("old"), SAID, **OVER)
    assert watch(
        [old, turn("t2", asked("new"))],
        [old, turn("t2", asked("new"), RAN)],
        [old, turn("t2", asked("new"), RAN, asked("more"))],
        [old, turn("t2", asked("new"), RAN, asked("more"), SAID, **OVER)],
        [old, turn("t2", asked("new"), RAN, asked("more"), SAID, **OVER)],
    ) == [["new"], ["ran"], ["more"], ["Done.", "completed"], []]


def test_a_turn_that_was_left_open_ends_when_the_next_one_begins() -> None:
    left = turn("t1", asked("one"))
    assert watch([], [left], [left, turn("t2", asked("two"), SAID, **OVER)]) == [
        [],
        ["one"],
        ["cancelled", "two", "Done.", "completed"],
    ]


def test_a_stopped_and_a_failed_turn_are_over() -> None:
    stopped = turn("t1", asked("one"), completedAt=1)
    failed = turn("t2", asked("two"), status="failed", error={"message": "No."})
    assert watch([stopped], [stopped, failed]) == [["one", "cancelled"], ["two", "failed"]]
