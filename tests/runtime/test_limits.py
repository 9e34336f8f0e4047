"""What an engine says has a bound: beyond it something is cut, visibly, and everything else goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import open_rig

from pilothouse.core.event import (
    EngineEvent,
    MediaProduced,
    Notice,
    PlanChanged,
    PlanItem,
    SessionStarted,
    TextDelta,
    TextSet,
    ThinkingDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.ids import BlobHash, CallId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure
from pilothouse.runtime.turns.record import Bounds, Limits, cut_middle

SMALL = Limits(tool_output=20, text=10, line=8, plan_items=2, media=2, media_bytes=100)
CALL = CallId("call-1")


def passed(*events: EngineEvent, limits: Limits = SMALL) -> list[EngineEvent]:
    bounds = Bounds(limits)
    return [kept for event in events for kept in bounds.cut(event)]


def notices(events: list[EngineEvent]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Notice)]


def file(size: int = 1) -> MediaProduced:
    return MediaProduced(Attachment("a.png", "image/png", size, BlobHash("0" * 64)))


@pytest.mark.parametrize(
    "event",
    [
        SessionStarted(),
        TextDelta("b", "0123456789"),
        TextSet("b", ""),
        ThinkingDelta("hm"),
        ToolStarted(ToolCall(CALL, "command", "make", {"command": "make"})),
        ToolUpdated(CALL, "make", "line"),
        ToolFinished(CALL, ok=True, output="0123456789" * 2),
        PlanChanged((PlanItem("one"),)),
        file(),
        TurnEnded("failed", failure=Failure("crash", "broke", 5.0, "why")),
    ],
)
def test_what_is_within_its_bound_passes_as_it_is(event: EngineEvent) -> None:
    assert passed(event) == [event]


def test_a_cut_keeps_head_and_tail_and_says_how_much_is_missing() -> None:
    assert cut_middle("a" * 5 + "x" * 1000 + "b" * 5, 10) == "aaaaa\n[… 1,000 characters cut …]\nbbbbb"


def test_an_answer_is_cut_once_and_told_once() -> None:
    first, second, told = passed(*[TextDelta("b", "12345678")] * 2, *[TextDelta("c", "more")] * 3)
    assert first == TextDelta("b", "12345678")
    assert isinstance(second, TextDelta)
    assert second.text.startswith("12\n\n[Cut here")
    assert isinstance(told, Notice)


def test_text_that_is_replaced_counts_once() -> None:
    sets: list[EngineEvent] = [TextSet("b", "12345678"), TextSet("b", "87654321"), TextSet("b", "")]
    assert passed(*sets * 3) == sets * 3


def test_a_sub_agent_takes_nothing_from_the_answer() -> None:
    events = passed(TextDelta("s", "x" * 99, CALL), TextDelta("b", "0123456789"))
    assert events[-1] == TextDelta("b", "0123456789")


def test_what_a_tool_prints_counts_together_and_its_last_word_is_kept() -> None:
    printed: list[EngineEvent] = [ToolUpdated(CALL, output="0123456789")] * 5
    events = passed(*printed, ToolUpdated(CALL, "title", "more"), ToolFinished(CALL, ok=True, output="bye"))
    assert events[:2] == printed[:2]
    assert events[-2:] == [ToolUpdated(CALL, "title"), ToolFinished(CALL, ok=True, output="bye")]
    assert notices(events) == ["cut"]


def test_too_many_files_and_too_large_ones_are_left_out() -> None:
    events = passed(file(101), file(), file(), file(), file())
    assert [event for event in events if isinstance(event, MediaProduced)] == [file(), file()]
    assert len(notices(events)) == 2


def test_whoever_waits_for_a_file_reads_below_the_answer_that_it_was_left_out() -> None:
    (*_, end) = passed(file(101), file(), file(), file(), file(), TurnEnded("completed", "here"))
    assert isinstance(end, TurnEnded)
    assert end.answer.split("\n") == [
        "here",
        "",
        f"[{file().attachment.name} was left out: it has 101 B, and the limit is 100 B.]",
        "[2 more files were left out: the limit is 2 per turn.]",
    ]


def test_an_answer_in_the_end_itself_is_cut_too() -> None:
    (end,) = passed(TurnEnded("completed", "x" * 99))
    assert isinstance(end, TurnEnded)
    assert end.answer.startswith("x" * 10 + "\n\n[Cut here")


async def test_a_tool_that_prints_megabytes_leaves_a_turn_that_can_be_read(tmp_path: Path) -> None:
    async def loud(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await strings.emit(ToolFinished(CALL, ok=True, output="begin" + "x" * 5_000_000 + "end"))
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(loud)) as rig:
        await rig.channel.say("go")
        await rig.until_said("done")
        (turn,) = await rig.until_ended()
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        (output,) = [event.output for event in events if isinstance(event, ToolFinished)]
        assert len(output) < 70_000
        assert output.startswith("begin")
        assert output.endswith("end")
        assert notices(events) == ["cut"]
