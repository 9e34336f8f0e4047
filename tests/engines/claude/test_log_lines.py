"""Claude's own log of a session, told as turns."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.engine import MediaFound, Step
from pilothouse.core.event import (
    EngineEvent,
    PromptAdded,
    ResumeToken,
    SessionStarted,
    TextSet,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    well_formed,
)
from pilothouse.core.ids import EngineId
from pilothouse.engines.claude.session_watch import LogTranslator

ID = "01941f2a-3b4c-7d8e-9f0a-1b2c3d4e5f6a"
PLAIN = {"isSidechain": False, "sessionId": ID, "cwd": "/srv/app", "version": "2.1.325", "uuid": "u"}
TOKEN = ResumeToken(EngineId("claude"), ID, "/srv/app")


def line(kind: str, **fields: Any) -> bytes:
    return json.dumps({**PLAIN, "type": kind, **fields}).encode()


def prompt(text: str, **fields: Any) -> bytes:
    return line("user", message={"role": "user", "content": text}, **fields)


def said(*content: dict[str, Any], stop: str = "tool_use", id: str = "m1", **fields: Any) -> bytes:
    message = {"id": id, "role": "assistant", "model": "m", "content": list(content), "stop_reason": stop}
    return line("assistant", message=message, **fields)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(id: str, name: str = "Read", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(id: str, content: str = "ok") -> bytes:
    block = {"type": "tool_result", "tool_use_id": id, "content": content}
    return line("user", message={"role": "user", "content": [block]}, toolUseResult={"stdout": content})


def read(*lines: bytes, translator: LogTranslator | None = None) -> list[EngineEvent]:
    translator = translator or LogTranslator()
    return events_of(step for one in lines for step in translator.feed(one))


def events_of(steps: Iterable[Step]) -> list[EngineEvent]:
    return [step for step in steps if not isinstance(step, MediaFound)]


def test_a_turn_is_told_from_its_prompt_to_its_last_word() -> None:
    translator = LogTranslator()
    events = read(
        line("mode", mode="normal"),
        prompt("do it"),
        line("attachment", attachment={"type": "date"}),
        said({"type": "thinking", "thinking": "hm"}),
        said(text("Let me look.")),
        said(use("t1", file_path="/srv/app/x.txt")),
        result("t1"),
        said(text("Done."), stop="end_turn", id="m2"),
        translator=translator,
    )
    assert [type(event) for event in events] == [
        SessionStarted,
        PromptAdded,
        ThinkingDelta,
        TextSet,
        ToolStarted,
        ToolFinished,
        TextSet,
    ]
    assert events[0] == SessionStarted(TOKEN, cwd="/srv/app")
    assert isinstance(events[4], ToolStarted)
    assert events[4].call.title == "tool: Read x.txt"
    assert translator.pause() == [TurnEnded("completed", "Let me look.\n\nDone.", resume=TOKEN)]
    assert translator.pause() == ()


def test_a_message_of_several_blocks_is_over_only_when_the_cli_sums_up_or_somebody_speaks() -> None:
    blocks = [prompt("go"), said(text("One."), stop="end_turn"), said(text("Two."), stop="end_turn")]
    for last in (line("system", subtype="turn_duration"), line("cost-state"), prompt("more")):
        events = read(*blocks, last)
        ends = [event for event in events if isinstance(event, TurnEnded)]
        assert [(end.outcome, end.answer) for end in ends] == [("completed", "One.\n\nTwo.")]
    assert isinstance(read(*blocks, prompt("more"))[-1], PromptAdded)


def test_a_running_tool_is_not_taken_for_the_end() -> None:
    translator = LogTranslator()
    read(prompt("go"), said(use("t1")), line("cost-state"), translator=translator)
    assert translator.pause() == ()


def test_an_interrupt_cancels_and_closes_what_was_open() -> None:
    stopped = line(
        "user", message={"role": "user", "content": [text("[Request interrupted by user for tool use]")]}
    )
    events = read(prompt("go"), said(use("t1")), stopped)
    assert [type(event) for event in events[-2:]] == [ToolFinished, TurnEnded]
    assert isinstance(events[-1], TurnEnded)
    assert events[-1].outcome == "cancelled"


def test_an_api_error_ends_the_turn_with_its_reason() -> None:
    failed = said(text("API Error: 529 Overloaded"), stop="stop_sequence", isApiErrorMessage=True)
    end = read(prompt("go"), failed)[-1]
    assert isinstance(end, TurnEnded)
    assert end.failure is not None
    assert (end.outcome, end.failure.kind, end.answer) == ("failed", "overloaded", "")


def test_what_the_cli_says_to_itself_and_what_sub_agents_say_is_left_out() -> None:
    assert not read(
        prompt("Caveat: …", isMeta=True),
        prompt("<command-name>/clear</command-name>"),
        prompt("<local-command-stdout>Cleared</local-command-stdout>"),
        prompt("inner", isSidechain=True),
        said(text("inner"), isSidechain=True),
        line("api-request", params={}),
        line("system", subtype="informational", content="x"),
        b"not json",
        b'{"type": 7}',
        b"[]",
    )


def test_who_comes_in_the_middle_sees_a_whole_stream() -> None:
    translator = LogTranslator()
    events = read(result("t0"), said(text("Done."), stop="end_turn"), translator=translator)
    events += events_of(translator.pause())
    assert isinstance(events[0], SessionStarted)
    assert list(well_formed(events)) == events


def odd_line(kind: str, extra: dict[str, Any]) -> bytes:
    return json.dumps({**extra, "type": kind}).encode()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
LINES = st.one_of(
    st.sampled_from(
        [prompt("a"), said(text("b")), said(text("c"), stop="end_turn"), said(use("t")), result("t")]
    ),
    st.binary(max_size=30),
    st.builds(
        odd_line,
        st.sampled_from(["user", "assistant", "system", "x"]),
        st.dictionaries(st.sampled_from(["message", "isMeta", "cwd", "sessionId", "content"]), VALUES),
    ),
)


@given(st.lists(LINES, max_size=30))
def test_whatever_stands_in_it_each_turn_keeps_the_grammar(lines: list[bytes]) -> None:
    translator = LogTranslator()
    events = read(*lines, translator=translator)
    events += events_of(translator.end())
    turn: list[EngineEvent] = []
    for event in events:
        turn.append(event)
        if isinstance(event, TurnEnded):
            assert list(well_formed(turn)) == turn
            turn = []
    assert turn == []
