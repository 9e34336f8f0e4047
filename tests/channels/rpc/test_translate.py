"""Rows of the log become agent events with stable numbers; a terminal answer is sent once."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.channels.rpc.events import AgentEvent, CompactionComplete, CompactionStart, Final, Text
from pilothouse.channels.rpc.translate import Numbered, RunTranslator
from pilothouse.core.ask import Ask
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Notice,
    PromptAdded,
    SessionStarted,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    merge_deltas,
    well_formed,
)
from pilothouse.core.ids import AskId, CallId, TurnId
from pilothouse.core.outcome import Failure

TURN = TurnId("turn-1")
NAMES = ("a", "b")
IDS = st.sampled_from(NAMES)
STEPS: st.SearchStrategy[EngineEvent] = st.one_of(
    st.builds(TextDelta, IDS, st.text(max_size=5)),
    st.builds(TextSet, IDS, st.text(max_size=5)),
    st.builds(ThinkingDelta, st.text(max_size=5)),
    st.sampled_from([ToolStarted(ToolCall(CallId(id), "read", id)) for id in NAMES]),
    st.sampled_from([ToolFinished(CallId(id), ok) for id in NAMES for ok in (True, False)]),
    st.sampled_from([Asked(Ask(AskId(id), "approval", "May it?")) for id in NAMES]),
    st.sampled_from([AskChanged(AskId(id), "answered") for id in NAMES]),
    st.builds(PromptAdded, st.text(max_size=3)),
)
ENDS = st.sampled_from(
    [
        TurnEnded("completed", "the answer"),
        TurnEnded("cancelled"),
        TurnEnded("failed", failure=Failure("crash", "x")),
    ]
)


def translate(events: list[EngineEvent]) -> tuple[list[Numbered], RunTranslator]:
    run = RunTranslator()
    rows = [LoggedEvent(seq, TURN, 1.0, event) for seq, event in enumerate(events, 1)]
    return [one for row in rows for one in run.feed(row)], run


def shown(events: list[EngineEvent]) -> list[AgentEvent]:
    return [one.event for one in translate(events)[0]]


@settings(max_examples=50)
@given(st.lists(STEPS, max_size=20), ENDS)
def test_numbers_have_no_gap_and_each_tool_is_closed(steps: list[EngineEvent], end: TurnEnded) -> None:
    told, run = translate(list(well_formed([SessionStarted(), *steps, end])))
    assert [one.seq for one in told] == list(range(len(told)))
    kinds = [one.event.__struct_config__.tag for one in told]
    assert kinds.count("step_start") == kinds.count("tool_call") == kinds.count("tool_result")
    assert kinds.count("step_start") == kinds.count("step_complete")
    assert run.ended and kinds.count("final") == (end.outcome == "completed")
    assert "final" not in kinds[:-1]


@settings(max_examples=50)
@given(st.lists(STEPS, max_size=20), ENDS)
def test_merged_deltas_give_the_same_events(steps: list[EngineEvent], end: TurnEnded) -> None:
    whole = list(well_formed([SessionStarted(), *steps, end]))
    merged: list[EngineEvent] = []
    for event in whole:
        if merged and (both := merge_deltas(merged[-1], event)):
            merged[-1] = both
        else:
            merged.append(event)
    assert translate(merged)[0] == translate(whole)[0]


def test_text_before_a_tool_is_text_and_the_last_text_is_only_final() -> None:
    call = ToolCall(CallId("c"), "command", "ls", {"tool": "Bash", "command": "ls"})
    told = shown(
        [
            PromptAdded("do it"),
            TextDelta("1", "Let me look."),
            ToolStarted(call),
            ToolFinished(call.id, ok=True, output="a"),
            TextDelta("2", "One file."),
            TurnEnded("completed", "Let me look.\n\nOne file."),
        ]
    )
    kinds = [event.__struct_config__.tag for event in told]
    assert kinds == ["text", "step_start", "tool_call", "tool_result", "step_complete", "final"]
    assert told[0] == Text("Let me look.", 1000) and told[-1] == Final("One file.")


def test_an_ask_about_an_open_call_names_it_and_shows_its_diff() -> None:
    given_input = {"file_path": "a.py", "content": "x"}
    call = ToolCall(CallId("c7"), "file_change", "a.py", {"tool": "Write", **given_input})
    ask = Ask(AskId("q"), "approval", "a.py", {"tool": "Write", "input": given_input}, preview="+x")
    told = shown([ToolStarted(call), Asked(ask)])
    assert [event.__struct_config__.tag for event in told[2:]] == ["permission.preview", "permission.ready"]
    assert {event.tool_call_id for event in told[1:]} == {"c7"}  # pyrefly: ignore
    assert told[2].diff == "+x"  # pyrefly: ignore


def test_an_answer_that_was_not_streamed_is_final() -> None:
    assert shown([TurnEnded("completed", "42")]) == [Final("42")]


def test_the_text_of_a_failed_turn_is_text() -> None:
    told, run = translate(
        [TextDelta("1", "half"), TurnEnded("failed", failure=Failure("crash", "It broke."))]
    )
    assert [one.event for one in told] == [Text("half", 1000)]
    assert (run.status, run.message) == ("error", "It broke.")


def test_an_ask_that_is_answered_after_the_end_does_not_revive_the_run() -> None:
    lost = TurnEnded("failed", failure=Failure("crash", "It restarted."))
    _, run = translate(
        [Asked(Ask(AskId("q"), "approval", "May it?")), lost, AskChanged(AskId("q"), "answered")]
    )
    assert run.status == "error"


BEGUN = Notice("info", "compaction", "Compacting the conversation…")
COMPACTED = Notice("info", "compacted", "The conversation was compacted.")
FAILED = Notice("info", "compaction_failed", "There is no conversation to compact yet.")


@pytest.mark.parametrize("before", [[], [BEGUN], [BEGUN, BEGUN]])
@pytest.mark.parametrize(("notice", "compacted"), [(COMPACTED, True), (FAILED, False)])
def test_a_compaction_is_begun_and_ended_once(
    before: list[EngineEvent], notice: Notice, compacted: bool
) -> None:
    told = shown([SessionStarted(), *before, notice, TurnEnded("completed")])
    assert told == [CompactionStart(1000), CompactionComplete(1000, compacted), Final(notice.text)]
    assert shown([SessionStarted(), notice, TurnEnded("completed", "hi")])[-1] == Final("hi")


def test_a_compaction_that_the_run_does_not_end_is_closed_at_its_end() -> None:
    told = shown([SessionStarted(), BEGUN, TurnEnded("cancelled")])
    assert told == [CompactionStart(1000), CompactionComplete(1000, compacted=False)]
