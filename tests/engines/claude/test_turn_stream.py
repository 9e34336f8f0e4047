"""One prompt's stream out of a process's turns."""

from __future__ import annotations

from pilothouse.core.engine import Step
from pilothouse.core.event import (
    EngineEvent,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextDelta,
    TextSet,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    well_formed,
)
from pilothouse.core.ids import CallId, EngineId
from pilothouse.core.outcome import Failure, Usage
from pilothouse.engines.claude.turn_stream import TurnStream

START = SessionStarted(ResumeToken(EngineId("claude"), "s"))


def end(answer: str, cost: float = 1.0) -> TurnEnded:
    return TurnEnded("completed", answer, usage=Usage(cost_usd=cost, input_tokens=10))


def checked(steps: list[Step]) -> list[EngineEvent]:
    events = [step for step in steps if not hasattr(step, "data")]
    assert list(well_formed(events)) == events  # type: ignore[arg-type]
    return events  # type: ignore[return-value]


def test_one_turn_passes_as_it_is() -> None:
    steps = [START, TextDelta("b", "hi"), end("hi")]
    assert TurnStream("u1").take(steps, ["u1"]) == steps


def test_a_push_that_was_folded_in_ends_with_the_turn() -> None:
    stream = TurnStream("u1")
    stream.push("u2")
    assert stream.take([START, end("both")], ["u1", "u2"])[-1] == end("both")
    assert stream.ended


def test_a_push_that_was_not_is_waited_for_and_the_two_are_one_turn() -> None:
    stream = TurnStream("u1")
    stream.push("u2")
    first = stream.take([START, TextDelta("a", "one"), end("one", 0.5)], ["u1"])
    assert not stream.ended
    second = stream.take([START, TextDelta("b", "two"), end("two", 0.25)], ["u2"])
    events = checked([*first, *second])
    assert sum(isinstance(event, SessionStarted) for event in events) == 1
    assert events[-1] == TurnEnded("completed", "one\n\ntwo", usage=Usage(cost_usd=0.75, input_tokens=20))


def test_a_failed_turn_ends_whatever_waits() -> None:
    stream = TurnStream("u1")
    stream.push("u2")
    stream.take([START, TurnEnded("failed", failure=Failure("overloaded", "x"))], ["u1"])
    assert stream.ended


def test_a_turn_that_answers_somebody_else_is_not_ours() -> None:
    stream = TurnStream("u1")
    assert stream.take([START, TextDelta("x", "woke up"), end("woke up")], ["task"]) == []
    assert stream.take([START, end("ours")], ["u1"])[-1] == end("ours")


def test_a_cli_that_does_not_tell_whom_it_answers_is_believed() -> None:
    assert TurnStream("u1").take([START, end("x")], [])[-1] == end("x")


def test_what_was_taken_out_of_the_queue_is_cancelled() -> None:
    stream = TurnStream("u1")
    assert stream.cancel(["other"]) == []
    assert stream.cancel(["u1"]) == [TurnEnded("cancelled")]


def test_it_knows_whether_deeds_have_begun_and_whether_a_tool_runs() -> None:
    stream = TurnStream("u1")
    stream.take([START, ToolStarted(ToolCall(CallId("r"), "read", "a"))], ["u1"])
    assert (stream.began, stream.working) == (False, True)
    stream.take([ToolFinished(CallId("r"), ok=True)], ["u1"])
    assert (stream.began, stream.working) == (False, False)
    stream.take([ToolStarted(ToolCall(CallId("c"), "command", "make"))], ["u1"])
    assert stream.began


def test_what_was_shown_is_taken_back_before_it_begins_again() -> None:
    stream = TurnStream("u1")
    stream.take([START, TextDelta("a", "half")], ["u1"])
    assert stream.withdraw() == [TextSet("a", "")]
    stream.begin_again("u2")
    assert stream.take([START, TextDelta("b", "whole"), end("whole")], ["u2"])[-1] == end("whole")


def test_a_later_turn_in_another_session_tells_of_the_change_and_does_not_start_again() -> None:
    stream, moved = TurnStream("u1"), ResumeToken(EngineId("claude"), "t")
    stream.push("u2")
    first = stream.take([START, end("one")], ["u1"])
    second = stream.take([SessionStarted(moved), end("two")], ["u2"])
    assert checked([*first, *second])[:2] == [START, SessionChanged(moved)]


def test_a_call_that_a_killed_process_left_open_is_closed_before_the_end() -> None:
    stream = TurnStream("u1")
    first = stream.take([START, ToolStarted(ToolCall(CallId("r"), "read", "a"))], ["u1"])
    events = checked([*first, *stream.take([TurnEnded("failed", failure=Failure("crash", "x"))], ())])
    assert events[-2] == ToolFinished(CallId("r"), ok=False)
    assert stream.take([START, end("late")], ["u1"]) == []
    assert stream.fail(Failure("crash", "again")) == []
