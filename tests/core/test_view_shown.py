"""Which of draft and activity is seen when: the table in `view.py`, row by row."""

import pytest
from tests.core.builders import closed, opened, say

from pilothouse.core.event import (
    EngineEvent,
    SessionStarted,
    TextSet,
    TurnEnded,
)
from pilothouse.core.view import (
    FIRST_TEXT_AFTER_S,
    TEXT_AFTER_TOOL_S,
    TurnView,
    fold,
    shown,
)


def seen(view: TurnView, at: float) -> str:
    """The draft, or the id of the activity in brackets, or nothing."""
    now = shown(view, at)
    assert not (now.text and now.activity)
    return now.text or (f"[{now.activity.id}]" if now.activity else "")


def at_times(*steps: tuple[float, EngineEvent]) -> TurnView:
    view = TurnView()
    for at, event in steps:
        view = fold(view, event, at)
    return view


def test_idle_shows_nothing_until_a_text_was_held_back_long_enough() -> None:
    assert seen(TurnView(), 100) == ""
    view = at_times((0, SessionStarted()), (10, say("Hi")))
    assert seen(view, 10) == ""
    assert seen(view, 10 + FIRST_TEXT_AFTER_S - 0.01) == ""
    assert seen(view, 10 + FIRST_TEXT_AFTER_S) == "Hi"


def test_idle_shows_the_activity_as_soon_as_a_tool_starts() -> None:
    assert seen(at_times((0, SessionStarted()), (10, opened("t"))), 10) == "[t]"


def test_buffering_appends_and_does_not_start_again() -> None:
    view = at_times((10, say("Hi")), (10.7, say(" there")))
    assert seen(view, 10.79) == ""
    assert seen(view, 10.8) == "Hi there"


def test_buffering_drops_its_text_when_a_tool_starts() -> None:
    view = at_times((10, say("I will look.")), (10.1, opened("t")))
    assert seen(view, 10.1) == "[t]"
    assert seen(view, 99) == "[t]"
    assert view.draft == ""
    assert view.text == "I will look."


def test_a_tool_keeps_the_activity_while_text_arrives() -> None:
    view = at_times((10, opened("t")), (11, say("Still looking.", "b2")))
    assert seen(view, 99) == "[t]"


def test_a_tool_gives_way_to_the_next_tool() -> None:
    both = [(10.0, opened("t1")), (11.0, opened("t2"))]
    assert seen(at_times(*both), 11) == "[t2]"
    assert seen(at_times(*both, (12, closed("t2"))), 12) == "[t1]"
    assert seen(at_times(*both, (12, closed("t1"))), 12) == "[t2]"


def test_when_the_tools_end_their_text_is_dropped_and_the_last_activity_stays() -> None:
    view = at_times((10, opened("t")), (11, say("Still looking.")), (12, closed("t")))
    assert seen(view, 99) == "[t]"
    assert view.draft == ""


def test_text_after_a_tool_is_held_back_shorter() -> None:
    view = at_times((10, opened("t")), (12, closed("t")), (20, say("Here it is.", "b2")))
    assert seen(view, 20 + TEXT_AFTER_TOOL_S - 0.01) == "[t]"
    assert seen(view, 20 + TEXT_AFTER_TOOL_S) == "Here it is."


def test_streaming_appends_and_shows_at_once() -> None:
    view = at_times((10, say("Hi")), (15, say(" there")))
    assert seen(view, 15) == "Hi there"


def test_streaming_gives_way_to_a_tool() -> None:
    view = at_times((10, say("Let me see.")), (15, opened("t")))
    assert seen(view, 15) == "[t]"


def test_the_end_shows_the_answer_and_no_activity() -> None:
    view = at_times(
        (10, say("Yes")), (11, opened("t")), (12, closed("t")), (13, TurnEnded("completed", "Yes."))
    )
    assert seen(view, 13) == "Yes."


@pytest.mark.parametrize("nothing", [say(""), say("\n"), TextSet("b1", ""), TextSet("b1", " \n")])
def test_text_that_nobody_can_see_starts_no_clock(nothing: EngineEvent) -> None:
    view = at_times((0, nothing), (10, say("Hi")))
    assert seen(view, 10.5) == ""
    assert seen(view, 10.8).strip() == "Hi"


def test_a_withdrawn_draft_is_forgotten_and_the_next_is_held_back_again() -> None:
    view = at_times((0, say("Hm")), (1, TextSet("b1", "")))
    assert seen(view, 2) == ""
    view = fold(view, say("Hi", "b2"), 10)
    assert seen(view, 10.5) == ""
    assert seen(view, 10.8) == "Hi"


def test_a_draft_that_becomes_visible_by_correction_is_held_back() -> None:
    view = at_times((0, say(" ")), (10, TextSet("b1", "Hi")))
    assert seen(view, 10) == ""
    assert seen(view, 10.8) == "Hi"


def test_news_of_a_tool_that_never_opened_changes_nothing() -> None:
    view = at_times((0, say("Hi")))
    assert fold(view, closed("t"), 5) == view
