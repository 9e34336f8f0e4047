"""Tool-aware streaming: what waits, for how long, and that nothing is lost or moved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.engine import MediaFound, Step
from pilothouse.core.event import (
    Notice,
    TextDelta,
    TextSet,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    well_formed,
)
from pilothouse.core.ids import CallId
from pilothouse.core.view import TurnView, fold
from pilothouse.engines.narration import HOLD_S, Narration


def tool(id: str = "t") -> ToolStarted:
    return ToolStarted(ToolCall(CallId(id), "command", "ls"))


def finished(id: str = "t") -> ToolFinished:
    return ToolFinished(CallId(id), ok=True)


END = TurnEnded("completed")


def test_words_before_a_tool_come_whole_and_with_it() -> None:
    narration = Narration()
    assert (
        narration.take([TextDelta("a", "Let me"), TextDelta("a", " look."), TextSet("a", "Let me look.")], 0)
        == []
    )
    assert narration.take([tool()], 0.4) == [TextSet("a", "Let me look."), tool()]


def test_what_has_waited_long_enough_streams_from_then_on() -> None:
    narration = Narration()
    assert narration.due_at is None
    assert narration.take([TextDelta("a", "It")], 10) == []
    assert narration.due_at == 10 + HOLD_S
    assert narration.release() == [TextDelta("a", "It")]
    assert narration.take([TextDelta("a", " is so.")], 12) == [TextDelta("a", " is so.")]
    assert narration.take([tool(), finished(), TextDelta("b", "And")], 13)[2:] == []


def test_while_a_tool_runs_words_wait_without_a_time() -> None:
    narration = Narration()
    narration.take([tool(), TextDelta("b", "Meanwhile")], 0)
    assert narration.due_at is None
    narration.take([finished()], 100)
    assert narration.due_at == 100 + HOLD_S


def test_a_turn_that_ends_says_all() -> None:
    narration = Narration()
    narration.take([TextDelta("a", "Done")], 0)
    assert narration.take([Notice("info", "x", "y"), END], 0) == [
        Notice("info", "x", "y"),
        TextDelta("a", "Done"),
        END,
    ]


steps = st.lists(
    st.one_of(
        st.builds(TextDelta, st.sampled_from("ab"), st.text(max_size=3)),
        st.builds(TextSet, st.sampled_from("ab"), st.text(max_size=3)),
        st.builds(tool, st.sampled_from("tu")),
        st.builds(finished, st.sampled_from("tu")),
        st.none(),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_comes_the_text_of_the_turn_stays_the_same(given: list[Step | None]) -> None:
    """`None` is time that passes."""
    narration, out = Narration(), list[Step]()
    said = [step for step in given if step is not None]
    for now, step in enumerate(given):
        out += narration.release() if step is None else narration.take([step], now)
    out += narration.take([END], 99)
    assert text_of(out) == text_of([*said, END])
    assert [step for step in out if not isinstance(step, TextDelta | TextSet)] == [
        step for step in [*said, END] if not isinstance(step, TextDelta | TextSet)
    ]


def text_of(steps: list[Step]) -> str:
    view = TurnView()
    for event in well_formed([step for step in steps if not isinstance(step, MediaFound)]):
        view = fold(view, event, 0.0)
    return view.text
