"""`well_formed` against a checker of the grammar that shares no code with it."""

import pytest
from hypothesis import given
from tests.core.strategies import likely_streams, streams

from pilothouse.core.ask import Ask
from pilothouse.core.event import (
    NO_END,
    NO_REASON,
    AskChanged,
    Asked,
    EngineEvent,
    Grammar,
    Notice,
    PromptAdded,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    well_formed,
)
from pilothouse.core.ids import AskId, CallId, EngineId
from pilothouse.core.outcome import Failure

START = SessionStarted()
DONE = TurnEnded("completed", "yes")
WHY = Failure("transport", "The line went dead.")
FAILED = TurnEnded("failed", failure=WHY)
WARNING = Notice("warning", "slow", "The engine is slow today.")
HELLO = TextDelta("b1", "hello")
C1 = CallId("c1")
OPEN = ToolStarted(ToolCall(C1, "command", "ls"))
CLOSE = ToolFinished(C1, ok=True, output="a b")
A1 = AskId("a1")
ASKED = Asked(Ask(A1, "approval", "Run it?"))


def token(value: str) -> ResumeToken:
    return ResumeToken(EngineId("script"), value)


def broken_rule(stream: list[EngineEvent]) -> str:
    """The first rule of the grammar in `event.py` that the stream breaks; empty if it keeps them all."""
    body, end = stream[:-1], stream[-1] if stream else None
    if not isinstance(end, TurnEnded):
        return "the end is last"
    if any(isinstance(event, TurnEnded) for event in body):
        return "there is one end"
    if end.outcome == "failed" and end.failure is None:
        return "a failed end says why"
    if end.outcome == "completed" and end.failure is not None:
        return "a completed end has no failure"
    starts = [i for i, event in enumerate(body) if isinstance(event, SessionStarted)]
    if len(starts) > 1:
        return "there is one start"
    if not starts and end.outcome == "completed":
        return "a completed turn has a start"
    preamble = body[: starts[0]] if starts else body
    if not all(isinstance(event, Notice) for event in preamble):
        return "only notices precede the start"
    return _broken_pairing(body)


def _broken_pairing(body: list[EngineEvent]) -> str:
    tools: dict[str, str] = {}
    asks: dict[str, str] = {}
    for event in body:
        match event:
            case ToolStarted(call=call):
                if call.id in tools:
                    return "a tool opens once"
                tools[call.id] = "open"
            case ToolUpdated(call_id=call_id) | ToolFinished(call_id=call_id) if tools.get(call_id) != "open":
                return "a tool changes and closes only while it is open"
            case ToolFinished(call_id=call_id):
                tools[call_id] = "closed"
            case Asked(ask=ask):
                if ask.id in asks:
                    return "an ask is made once"
                asks[ask.id] = "open"
            case AskChanged(ask_id=ask_id, state=state):
                if asks.get(ask_id) != "open" or state == "open":
                    return "an ask changes once, after it was made"
                asks[ask_id] = state
            case _:
                pass
    return "every tool is closed before the end" if "open" in tools.values() else ""


@given(streams)
def test_any_events_become_a_well_formed_stream(events: list[EngineEvent]) -> None:
    assert broken_rule(list(well_formed(events))) == ""


@given(likely_streams)
def test_events_in_nearly_the_right_order_become_a_well_formed_stream(events: list[EngineEvent]) -> None:
    assert broken_rule(list(well_formed(events))) == ""


@given(likely_streams)
def test_a_well_formed_stream_passes_unchanged(events: list[EngineEvent]) -> None:
    once = list(well_formed(events))
    assert list(well_formed(once)) == once
    if broken_rule(events) == "":
        assert once == events


@given(likely_streams)
def test_what_was_fed_event_by_event_is_what_came_out(events: list[EngineEvent]) -> None:
    """Nothing is held back: a reader sees each event when it happens."""
    grammar = Grammar()
    seen = [step for event in events for step in grammar.feed(event)]
    closing = grammar.end()
    assert seen + closing == list(well_formed(events))
    if not any(isinstance(event, TurnEnded) for event in events):
        assert all(isinstance(event, ToolFinished | TurnEnded) for event in closing)
        assert closing
    assert grammar.ended
    assert grammar.end() == []


@pytest.mark.parametrize(
    "stream",
    [
        [START, DONE],
        [WARNING, FAILED],
        [TurnEnded("cancelled")],
        [WARNING, WARNING, START, PromptAdded("hi"), HELLO, WARNING, DONE],
        [START, OPEN, ToolUpdated(C1, title="ls -l"), CLOSE, HELLO, DONE],
        [START, ASKED, AskChanged(A1, "answered"), DONE],
        [START, ASKED, TurnEnded("cancelled")],
    ],
    ids=lambda stream: " ".join(type(event).__name__ for event in stream),
)
def test_a_stream_that_keeps_every_rule_is_left_alone(stream: list[EngineEvent]) -> None:
    assert broken_rule(stream) == ""
    assert list(well_formed(stream)) == stream


REPAIRS: dict[str, tuple[list[EngineEvent], list[EngineEvent]]] = {
    "silence becomes a crash": ([], [TurnEnded("failed", failure=NO_END)]),
    "a crash keeps the session": (
        [SessionStarted(token("s1")), HELLO],
        [SessionStarted(token("s1")), HELLO, TurnEnded("failed", failure=NO_END, resume=token("s1"))],
    ),
    "a crash keeps the session that came last": (
        [SessionStarted(token("s1")), SessionChanged(token("s2"))],
        [
            SessionStarted(token("s1")),
            SessionChanged(token("s2")),
            TurnEnded("failed", failure=NO_END, resume=token("s2")),
        ],
    ),
    "what follows the end is dropped": ([START, DONE, HELLO, OPEN, FAILED], [START, DONE]),
    "a step before the start brings a start": ([HELLO, DONE], [START, HELLO, DONE]),
    "a completed turn brings a start": ([WARNING, DONE], [WARNING, START, DONE]),
    "a failed turn needs none": ([WARNING, FAILED], [WARNING, FAILED]),
    "a second start is dropped": ([START, SessionStarted(model="big"), DONE], [START, DONE]),
    "a second start with another session is a change": (
        [SessionStarted(token("s1")), SessionStarted(token("s2")), SessionStarted(token("s2")), DONE],
        [SessionStarted(token("s1")), SessionChanged(token("s2")), DONE],
    ),
    "a dangling tool is closed as failed": (
        [START, OPEN, DONE],
        [START, OPEN, ToolFinished(C1, ok=False), DONE],
    ),
    "a tool that opens twice is renamed": (
        [START, OPEN, ToolStarted(ToolCall(C1, "command", "ls -l")), CLOSE, DONE],
        [START, OPEN, ToolUpdated(C1, title="ls -l"), CLOSE, DONE],
    ),
    "a tool that closes twice closed the first time": (
        [START, OPEN, CLOSE, ToolFinished(C1, ok=False), DONE],
        [START, OPEN, CLOSE, DONE],
    ),
    "a tool that closes unopened is opened": (
        [START, CLOSE, DONE],
        [START, ToolStarted(ToolCall(C1, "tool", "tool")), CLOSE, DONE],
    ),
    "a closed tool stays closed": (
        [START, OPEN, CLOSE, OPEN, ToolUpdated(C1, title="again"), DONE],
        [START, OPEN, CLOSE, DONE],
    ),
    "news of an unknown tool is dropped": ([START, ToolUpdated(C1, title="x"), DONE], [START, DONE]),
    "an ask that is made twice was made once": ([START, ASKED, ASKED, DONE], [START, ASKED, DONE]),
    "news of an unknown ask is dropped": ([START, AskChanged(A1, "answered"), DONE], [START, DONE]),
    "an ask changes once": (
        [START, ASKED, AskChanged(A1, "expired"), AskChanged(A1, "answered"), DONE],
        [START, ASKED, AskChanged(A1, "expired"), DONE],
    ),
    "an ask does not open again": (
        [START, ASKED, AskChanged(A1, "open"), DONE],
        [START, ASKED, DONE],
    ),
    "a failed end without a reason gets one": (
        [START, TurnEnded("failed")],
        [START, TurnEnded("failed", failure=NO_REASON)],
    ),
    "a completed end has no failure": (
        [START, TurnEnded("completed", "yes", failure=WHY)],
        [START, DONE],
    ),
    "a cancelled end may say why": (
        [START, TurnEnded("cancelled", failure=WHY)],
        [START, TurnEnded("cancelled", failure=WHY)],
    ),
}


@pytest.mark.parametrize("name", REPAIRS)
def test_each_repair_gives_exactly_this(name: str) -> None:
    given_events, expected = REPAIRS[name]
    assert list(well_formed(given_events)) == expected
    assert broken_rule(expected) == ""


def test_the_reason_for_an_early_end_is_the_readers_to_give() -> None:
    grammar = Grammar()
    grammar.feed(START)
    grammar.feed(OPEN)
    assert grammar.end(WHY) == [ToolFinished(C1, ok=False), FAILED]
