"""All that a view holds beside its text, and that it stays small."""

import time
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from tests.core.builders import T0, closed, opened, say, viewed
from tests.core.strategies import likely_streams

from pilothouse.core.ask import Ask
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    MediaProduced,
    Notice,
    PlanChanged,
    PlanItem,
    PromptAdded,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TextSet,
    ThinkingDelta,
    ToolUpdated,
    TurnEnded,
    Usage,
    UsageChanged,
    well_formed,
)
from pilothouse.core.ids import AskId, BlobHash, CallId, EngineId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure
from pilothouse.core.view import (
    RECENT_ACTIONS,
    RECENT_NOTICES,
    THINKING_TAIL,
    TurnView,
    elapsed_s,
    fold,
)


def test_a_turn_counts_its_time_from_start_to_end() -> None:
    view = TurnView()
    assert elapsed_s(view, T0) == 0
    view = fold(view, SessionStarted(), T0)
    assert elapsed_s(view, T0 + 90) == 90
    assert elapsed_s(view, T0 - 3600) == 0
    view = fold(view, TurnEnded("completed"), T0 + 100)
    assert elapsed_s(view, T0 + 9999) == 100


def test_a_view_knows_its_session_and_model() -> None:
    first, second, third = (ResumeToken(EngineId("script"), value) for value in "123")
    view = viewed([SessionStarted(first, "big"), PromptAdded("hi"), PromptAdded("and")])
    assert (view.resume, view.model, view.prompts) == (first, "big", 2)
    view = viewed([SessionChanged(second)], view)
    assert view.resume == second
    assert viewed([TurnEnded("completed")], view).resume == second
    assert viewed([TurnEnded("completed", resume=third)], view).resume == third


def test_actions_are_counted_renamed_and_marked() -> None:
    view = viewed(
        [opened("t1"), opened("t2"), ToolUpdated(CallId("t1"), title="ls -l"), closed("t1", ok=False)]
    )
    assert view.steps == 2
    assert [(a.id, a.call.title, a.ok) for a in view.recent_actions] == [
        ("t1", "ls -l", False),
        ("t2", "run t2", None),
    ]
    assert [a.id for a in view.open_actions] == ["t2"]
    assert viewed([ToolUpdated(CallId("t2"), output="...")], view) == view


def test_asks_stand_until_they_change_or_the_turn_ends() -> None:
    one, two = Ask(AskId("a1"), "approval", "?"), Ask(AskId("a2"), "question", "?")
    view = viewed([Asked(one), Asked(two)])
    assert view.asks == (one, two)
    assert viewed([AskChanged(AskId("a1"), "answered")], view).asks == (two,)
    assert viewed([TurnEnded("cancelled")], view).asks == ()


def test_plan_usage_and_media_are_the_latest_and_all() -> None:
    plan = (PlanItem("one", "done"), PlanItem("two"))
    file = Attachment("a.png", "image/png", 3, BlobHash("h"))
    view = viewed([PlanChanged(()), PlanChanged(plan), MediaProduced(file), MediaProduced(file)])
    assert (view.plan, view.attachments) == (plan, (file, file))
    used, total = Usage(steps=1), Usage(steps=2, cost_usd=0.5)
    view = viewed([UsageChanged(Usage()), UsageChanged(used)], view)
    assert viewed([TurnEnded("completed")], view).usage == used
    assert viewed([TurnEnded("completed", usage=total)], view).usage == total


@pytest.mark.parametrize(
    ("end", "answer"),
    [
        (TurnEnded("completed", "Yes."), "Yes."),
        (TurnEnded("completed"), "so far"),
        (TurnEnded("failed", failure=Failure("crash", "x")), ""),
        (TurnEnded("failed", "half", failure=Failure("crash", "x")), "half"),
        (TurnEnded("cancelled"), ""),
    ],
)
def test_the_answer_is_the_engines_own_or_else_all_it_said(end: TurnEnded, answer: str) -> None:
    view = viewed([SessionStarted(), say("so far"), opened("t"), end])
    assert (view.answer, view.outcome, view.failure) == (answer, end.outcome, end.failure)
    assert view.open_actions == ()


@given(likely_streams)
def test_a_view_is_never_changed_only_followed(events: list[EngineEvent]) -> None:
    view = TurnView()
    for event in well_formed(events):
        before = msgspec.json.encode(view)
        after = fold(view, event, T0)
        assert msgspec.json.encode(view) == before
        view = after


@given(likely_streams)
def test_a_finished_turn_has_an_outcome_and_nothing_open(events: list[EngineEvent]) -> None:
    view = viewed(well_formed(events))
    assert view.phase == "ended"
    assert view.outcome is not None
    assert (view.open_actions, view.asks) == ((), ())
    assert (view.failure is not None) >= (view.outcome == "failed")


def size(view: TurnView) -> int:
    return len(msgspec.json.encode(view))


def test_ten_thousand_tool_calls_leave_a_small_view() -> None:
    """What does not grow cannot become slow: each call costs the same as the first."""

    def calls(numbers: Iterable[int]) -> Iterable[EngineEvent]:
        for i in numbers:
            yield from (opened(f"t{i:05}"), closed(f"t{i:05}"))

    few = viewed(calls(range(10)))
    many = viewed(calls(range(10_000)))
    assert many.steps == 10_000
    assert len(many.recent_actions) == RECENT_ACTIONS
    assert many.recent_actions[-1].id == "t09999"
    assert size(many) < size(few) + 20


def test_ten_thousand_notices_and_thoughts_leave_a_small_view() -> None:
    view = viewed(Notice("info", "retry", f"attempt {i}") for i in range(10_000))
    assert [notice.text for notice in view.notices] == [f"attempt {i}" for i in range(9_980, 10_000)]
    assert len(view.notices) == RECENT_NOTICES
    view = viewed(ThinkingDelta(f"{i} ") for i in range(10_000))
    assert len(view.thinking) == THINKING_TAIL
    assert view.thinking.endswith("9998 9999 ")


TEN_THOUSAND: dict[str, list[EngineEvent]] = {
    "deltas of one block": [say("word ") for _ in range(10_000)],
    "blocks": [say("word ", f"b{i}") for i in range(10_000)],
    "growing texts of one block": [TextSet("b1", "word " * (i % 100 + 1)) for i in range(10_000)],
    "texts with a tool after each": [
        event for i in range(3_333) for event in (say("word ", f"b{i}"), opened(f"t{i}"), closed(f"t{i}"))
    ],
}


@pytest.mark.parametrize("name", TEN_THOUSAND)
def test_ten_thousand_pieces_of_text_fold_within_seconds(name: str) -> None:
    """Each takes microseconds; only a fold that walks through all the text for every piece takes so long."""
    started = time.perf_counter()
    viewed(TEN_THOUSAND[name])
    assert time.perf_counter() - started < 10
