"""One turn's events: its end, text that is taken back, calls, and what belongs to another turn."""

from __future__ import annotations

from typing import Any

import pytest

from pilothouse.core.event import (
    EngineEvent,
    Notice,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UsageChanged,
)
from pilothouse.engines.link import Exit
from pilothouse.engines.opencode.translate import TurnTranslator
from pilothouse.engines.opencode.wire import Heard, Reconnected, read_event
from pilothouse.engines.opencode.wire_parts import read_part

SESSION, PROMPT, REQUEST = "ses_1", "msg_20", "msg_21"


class Turn:
    def __init__(self) -> None:
        self.translator = TurnTranslator(SESSION, PROMPT, cwd="/w")
        self.events: list[Any] = [*self.translator.begin()]

    def hear(self, name: str, session: str = SESSION, **given: Any) -> list[EngineEvent]:
        return self.take(read_event(name, {"sessionID": session, **given}))

    def take(self, heard: Heard) -> list[Any]:
        steps = [*self.translator.take(heard)]
        self.events += steps
        return steps

    def request(self, id: str = REQUEST, parent: str = PROMPT, **given: Any) -> list[EngineEvent]:
        info = {"id": id, "role": "assistant", "parentID": parent, **given}
        return self.hear("message.updated", info=info)

    def finish(self, id: str = REQUEST, **given: Any) -> list[EngineEvent]:
        whole: dict[str, Any] = {"finish": "stop", "time": {"completed": 1}, **given}
        return self.request(id, **whole)

    def part(self, message: str = REQUEST, session: str = SESSION, **given: Any) -> list[EngineEvent]:
        return self.hear("message.part.updated", session, part={"id": "prt_1", "messageID": message, **given})

    def status(self, name: str, **given: Any) -> list[EngineEvent]:
        return self.hear("session.status", status={"type": name, **given})

    @property
    def end(self) -> TurnEnded:
        assert isinstance(self.events[-1], TurnEnded)
        return self.events[-1]


def test_a_turn_is_over_when_it_is_idle_and_its_last_request_is_over() -> None:
    turn = Turn()
    turn.request()
    turn.part(type="text", text="Hello", time={"end": 1})
    assert turn.status("idle") == []
    assert turn.translator.in_doubt
    turn.finish()
    assert not turn.translator.ended
    turn.status("idle")
    assert (turn.end.outcome, turn.end.answer) == ("completed", "Hello")


def test_an_idle_session_that_gets_busy_again_is_in_no_doubt() -> None:
    turn = Turn()
    turn.status("idle")
    turn.status("busy")
    assert not turn.translator.in_doubt


def test_an_error_without_any_request_fails_the_turn_once_it_is_closed() -> None:
    turn = Turn()
    turn.hear("session.error", error={"name": "UnknownError", "data": {"message": "Model not found: a/b"}})
    assert turn.translator.in_doubt
    turn.events += turn.translator.close()
    assert turn.end.failure is not None
    assert (turn.end.failure.kind, turn.end.failure.text) == ("bad_request", "Model not found: a/b")


@pytest.mark.parametrize("stopped", [True, False])
def test_a_stopped_turn_is_cancelled_whether_or_not_opencode_calls_it_aborted(stopped: bool) -> None:
    turn = Turn()
    turn.translator.interrupted = stopped
    aborted: dict[str, Any] = (
        {} if stopped else {"error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}}
    )
    turn.finish(finish=None, **aborted)
    turn.status("idle")
    assert turn.end.outcome == "cancelled"


def test_messages_of_an_earlier_turn_are_dropped() -> None:
    turn = Turn()
    turn.request("msg_11", "msg_10", time={"completed": 1})
    turn.part("msg_11", type="text", text="Old", time={"end": 1})
    turn.status("idle")
    assert not turn.translator.ended
    assert len(turn.events) == 1


def test_a_later_prompt_of_opencode_itself_belongs_to_the_turn_and_a_summary_is_no_answer() -> None:
    turn = Turn()
    turn.request("msg_23", "msg_22", mode="compaction", time={"completed": 1})
    turn.part("msg_23", type="text", text="A summary", time={"end": 1})
    turn.hear("session.compacted")
    turn.request("msg_25", "msg_24")
    turn.part("msg_25", type="text", text="Goes on", time={"end": 1})
    turn.finish("msg_25", parentID="msg_24")
    turn.status("idle")
    assert turn.end.answer == "Goes on"
    assert "compacted" in [e.kind for e in turn.events if isinstance(e, Notice)]


def test_the_text_of_a_request_that_is_made_again_is_withdrawn() -> None:
    turn = Turn()
    turn.request()
    turn.hear("message.part.delta", messageID=REQUEST, partID="prt_1", field="text", delta="part")
    steps = turn.status("retry", attempt=1, message="dropped", next=5)
    assert TextSet("prt_1", "") in steps
    assert turn.translator.close() != []


def test_a_removed_part_is_withdrawn() -> None:
    turn = Turn()
    turn.request()
    turn.part(type="text", text="Oops", time={"end": 1})
    assert turn.hear("message.part.removed", messageID=REQUEST, partID="prt_1") == [TextSet("prt_1", "")]


def test_thoughts_are_told_apart_from_text() -> None:
    turn = Turn()
    turn.request()
    turn.part(type="reasoning", text="")
    delta = {"messageID": REQUEST, "field": "text"}
    assert turn.hear("message.part.delta", partID="prt_1", delta="Hmm", **delta) == [ThinkingDelta("Hmm")]
    assert turn.hear("message.part.delta", partID="prt_2", delta="So", **delta) == [TextDelta("prt_2", "So")]


def call(status: str, tool: str = "bash", **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": tool, "callID": "c1", "state": {"status": status, **state}}


def test_a_call_opens_when_its_input_is_known_and_closes_once() -> None:
    turn = Turn()
    turn.request()
    assert turn.part(**call("pending", input={})) == []
    (started,) = turn.part(**call("running", input={"command": "make"}))
    assert isinstance(started, ToolStarted)
    assert (started.call.kind, started.call.title) == ("command", "make")
    turn.part(**call("running", input={"command": "make"}, metadata={"output": "a"}))
    turn.part(**call("running", input={"command": "make"}, metadata={"output": "ab"}))
    outputs = [getattr(event, "output", None) for event in turn.events[2:]]
    assert outputs == ["a", "b"]
    (finished,) = turn.part(**call("completed", input={}, output="ab", metadata={"exit": 2}))
    assert finished == ToolFinished(started.call.id, ok=False, output="ab")
    assert turn.part(**call("completed", input={}, output="ab")) == []


def test_a_script_is_shown_as_the_model_wrote_it() -> None:
    part = read_part(call("running", input={"command": ":\n> a.txt", "description": "x"}))
    assert part.state.input == {"command": "> a.txt", "description": "x"}  # pyrefly: ignore[missing-attribute]


def test_calls_and_costs_of_a_sub_agent_are_noted_and_its_text_is_not() -> None:
    turn = Turn()
    turn.request()
    turn.part(session="ses_child", message="msg_99", **call("running", input={"command": "ls"}))
    assert list(turn.translator.calls) == ["c1"]
    assert turn.part(session="ses_child", message="msg_99", type="text", text="Hi", time={"end": 1}) == []
    (usage,) = turn.part(
        session="ses_child", message="msg_99", type="step-finish", cost=0.5, tokens={"input": 3}
    )
    assert isinstance(usage, UsageChanged)
    assert (usage.usage.cost_usd, usage.usage.input_tokens, usage.usage.estimated) == (0.5, 3, True)


def test_answers_that_break_off_are_counted_unless_they_made_a_call() -> None:
    turn = Turn()
    for id in ("msg_21", "msg_22"):
        turn.finish(id, finish="unknown")
    turn.request("msg_23")
    turn.part("msg_23", **call("running", input={"command": "make"}))
    turn.finish("msg_23", finish="unknown")
    assert turn.translator.broken_off == 2


def test_a_message_for_the_running_turn_that_nobody_read_is_reported() -> None:
    turn = Turn()
    turn.translator.unread = {"msg_22"}
    turn.finish()
    turn.status("idle")
    assert turn.translator.in_doubt, "the message may have begun another request"
    turn.events += turn.translator.close()
    assert "Send it again" in str(turn.events[-2])


def test_a_message_that_a_request_answers_is_read() -> None:
    turn = Turn()
    turn.translator.unread = {"msg_22"}
    turn.finish("msg_23", parentID="msg_22")
    turn.status("idle")
    assert turn.end.outcome == "completed"


def test_a_server_that_ends_fails_the_turn() -> None:
    turn = Turn()
    turn.events += turn.translator.end(Exit(3, "no space left"))
    assert turn.end.failure is not None
    assert turn.end.failure.kind == "crash"


def test_strange_events_are_named_once() -> None:
    turn = Turn()
    assert len(turn.hear("dream.deepened")) == 1
    assert turn.hear("dream.deepened") == []
    assert len(turn.take(Reconnected())) == 1
