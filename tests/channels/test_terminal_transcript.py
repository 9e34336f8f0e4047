"""Every block of an answer is printed exactly once, in whichever order stream and delivery arrive."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.terminal.markdown import blocks, complete, missing
from pilothouse.channels.terminal.receive import make_identity
from pilothouse.channels.terminal.render import render
from pilothouse.channels.terminal.screen import Display
from pilothouse.channels.terminal.style import Palette
from pilothouse.channels.terminal.transcript import AWAY, Transcript
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
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from pilothouse.core.ids import AskId, CallId, TurnId, UserId
from pilothouse.core.message import AGAIN_MARK, Content, Part
from pilothouse.core.outcome import Failure
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio
TURN = TurnId("t1")
TOOL = ToolCall(CallId("c1"), "read", "Read", {"path": "a.py"})


class Paper:
    def __init__(self, live: bool) -> None:
        self.live = live
        self.text = ""
        self.line = ""
        self.live_text = ""

    async def say(self, text: str) -> None:
        self.text += text + "\n"

    async def note(self, text: str) -> None:
        self.text += text + "\n"

    def status(self, line: str) -> None:
        self.line = line

    def draft(self, text: str) -> bool:
        self.live_text = text
        return self.live


class Desk:
    """A transcript on paper, and what arrives there."""

    def __init__(self, since: float = 0.0, *, live: bool = True) -> None:
        self.clock, self.paper, self._seq = FakeClock(now=1000.0), Paper(live), 0
        display = Display(Palette(color=False), lambda: 80, drawn=False, streamed=True)
        me = make_identity("demo", "ada", self.clock.now, 1).author
        self.transcript = Transcript(self.paper, display, self.clock, me, since=since)

    async def events(self, *events: EngineEvent, turn: TurnId = TURN, at: float | None = None) -> None:
        for event in events:
            self._seq += 1
            await self.transcript.event(
                LoggedEvent(self._seq, turn, self.clock.now() if at is None else at, event)
            )

    async def send(self, text: str, *, turn: TurnId | None = TURN, again: bool = False) -> None:
        (part,) = render(Content(text, "answer", turn_id=turn))
        await self.transcript.part(Part(part.text, part.data, again=again))

    async def pass_time(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await self.transcript.tick()


def streamed(text: str) -> Sequence[EngineEvent]:
    return [SessionStarted(), *(TextDelta("b", char) for char in text)]


ANSWER = "First paragraph.\n\nSecond one.\n\n```py\nx = 1\n\ny = 2\n```\n\nThe end."
END = TurnEnded("completed", ANSWER, usage=Usage(cost_usd=0.01))


async def test_the_stream_first_and_then_the_delivery() -> None:
    desk = Desk()
    await desk.events(*streamed(ANSWER))
    await desk.pass_time(1.0)
    assert desk.paper.text == ANSWER.removesuffix("\n\nThe end.") + "\n"
    await desk.events(END)
    await desk.send(ANSWER)
    assert desk.paper.text == ANSWER + "\n\n✓ 1s · $0.0100\n"


async def test_the_delivery_first_and_then_the_stream() -> None:
    desk = Desk()
    async with anyio.create_task_group() as group:
        group.start_soon(desk.send, ANSWER)
        await anyio.wait_all_tasks_blocked()
        assert desk.paper.text == ""
        await desk.events(*streamed(ANSWER), END)
    await desk.pass_time(5.0)
    assert desk.paper.text == ANSWER + "\n\n✓ 0s · $0.0100\n"


async def test_a_delivery_whose_turn_is_never_followed_is_shown_all_the_same() -> None:
    desk = Desk()
    await desk.send("Hello.")
    assert desk.paper.text == "Hello.\n"
    await desk.events(*streamed("Hello."), TurnEnded("completed", "Hello."))
    await desk.pass_time(5.0)
    assert desk.paper.text.count("Hello.") == 1


async def test_an_answer_that_is_not_delivered_in_time_is_shown_from_the_log_and_not_again() -> None:
    desk = Desk()
    await desk.events(SessionStarted(), END)
    await desk.pass_time(3.0)
    await desk.send(ANSWER)
    assert desk.paper.text == ANSWER + "\n\n✓ 0s · $0.0100\n"


async def test_words_before_a_tool_are_no_answer_and_are_kept_apart() -> None:
    desk = Desk()
    await desk.events(
        SessionStarted(), TextDelta("b1", "I look."), ToolStarted(TOOL), ToolFinished(TOOL.id, ok=True)
    )
    await desk.events(TextDelta("b2", "Found."), TurnEnded("completed", "Found."))
    await desk.send("Found.")
    assert desk.paper.text == "  I look.\n\nFound.\n\n✓ 1 step · 0s\n"


async def test_an_answer_made_of_all_words_is_not_repeated() -> None:
    desk = Desk()
    await desk.events(
        SessionStarted(), TextDelta("b1", "I look."), ToolStarted(TOOL), ToolFinished(TOOL.id, ok=True)
    )
    await desk.events(TextDelta("b2", "Found."), TurnEnded("completed"))
    await desk.send("I look.\n\nFound.")
    assert desk.paper.text == "  I look.\n\nFound.\n\n✓ 1 step · 0s\n"


async def test_only_what_is_missing_is_added() -> None:
    desk = Desk()
    await desk.events(*streamed("One.\n\nTwo.\n\n"))
    await desk.pass_time(1.0)
    await desk.events(TurnEnded("completed"))
    await desk.send("One.\n\nTwo.\n\nThree.")
    assert desk.paper.text == "One.\n\nTwo.\n\nThree.\n\n✓ 1s\n"


async def test_text_is_held_until_it_is_clear_that_no_tool_follows() -> None:
    desk = Desk()
    await desk.events(*streamed("One.\n\nTwo."))
    await desk.pass_time(0.5)
    assert desk.paper.text == ""
    await desk.pass_time(0.5)
    assert desk.paper.text == "One.\n"


@pytest.mark.parametrize("live", [True, False])
async def test_text_is_shown_while_it_is_written(live: bool) -> None:
    """P25: above the line where there is one, else as the end of the status."""
    desk = Desk(live=live)
    await desk.events(*streamed("One.\n\nTwo and a half"))
    await desk.pass_time(0.1)
    assert desk.paper.text == "", "a tool may follow, and then it is no answer"
    assert ("One.\n\nTwo and a half" if live else "One. Two and a half") in (
        desk.paper.live_text if live else desk.paper.line
    )
    await desk.pass_time(1.0)
    assert (desk.paper.text, desk.paper.live_text) == ("One.\n", "Two and a half")


async def test_a_block_that_is_set_anew_is_told_anew() -> None:
    desk = Desk()
    await desk.events(*streamed("One.\n\nTwo."))
    await desk.pass_time(1.0)
    await desk.events(TextSet("b", "Uno.\n\nDue."), TurnEnded("completed"))
    await desk.send("Uno.\n\nDue.")
    assert desk.paper.text == "One.\n\nUno.\n\nDue.\n\n✓ 1s\n"


async def test_a_repeat_is_shown_whole_and_marked() -> None:
    desk = Desk()
    await desk.events(SessionStarted(), TurnEnded("completed", "Done."))
    await desk.send("Done.")
    await desk.send("Done.", again=True)
    assert desk.paper.text.count("Done.") == 2
    assert desk.paper.text.count(AGAIN_MARK) == 1


async def test_what_ended_while_nobody_was_there_comes_under_a_heading() -> None:
    desk = Desk(since=1000.0)
    await desk.events(SessionStarted(), TurnEnded("completed", "Old one."), turn=TurnId("t0"), at=900.0)
    await desk.events(SessionStarted(), TurnEnded("completed", "Older one."), turn=TurnId("t1"), at=910.0)
    await desk.pass_time(5.0)
    assert desk.paper.text == ""
    await desk.send("Old one.", turn=TurnId("t0"))
    await desk.send("Older one.", turn=TurnId("t1"))
    assert desk.paper.text == f"{AWAY}\n\nOld one.\n\n✓ 0s\n\nOlder one.\n\n✓ 0s\n"


async def test_a_turn_that_still_runs_when_somebody_comes_is_shown_live() -> None:
    desk = Desk(since=1000.0)
    await desk.events(SessionStarted(), ToolStarted(TOOL), at=990.0)
    assert desk.paper.line == ""
    await desk.pass_time(0.5)
    assert "Reading a.py" in desk.paper.line
    assert desk.transcript.safe_seq == 0


async def test_everything_that_ended_and_was_delivered_need_not_be_read_again() -> None:
    desk = Desk()
    await desk.events(SessionStarted(), TurnEnded("completed"))
    assert desk.transcript.safe_seq == 0
    await desk.send("Done.")
    assert desk.transcript.safe_seq == 2
    await desk.events(SessionStarted(), turn=TurnId("t2"))
    assert desk.transcript.safe_seq == 2


@pytest.mark.parametrize("late", [False, True])
async def test_a_failure_is_told_once(late: bool) -> None:
    desk = Desk()
    failure = Failure("quota", "The limit is reached.")
    await desk.events(SessionStarted(), TurnEnded("failed", failure=failure))
    await desk.pass_time(3.0 if late else 0.0)
    await desk.send("The limit is reached.")
    assert desk.paper.text == "The limit is reached.\n✗ failed · 0s\n"


async def test_an_ask_is_shown_once_by_whichever_way_it_comes_first() -> None:
    ask = Ask(AskId("a"), "approval", "May I?")
    (part,) = render(Content("May I?", "ask", turn_id=TURN, ask=ask))
    for first_the_event in (True, False):
        desk = Desk()
        await desk.events(SessionStarted())
        if first_the_event:
            await desk.events(Asked(ask))
        await desk.transcript.part(part)
        await desk.events(Asked(ask))
        assert desk.paper.text.count("May I?") == 1
        assert desk.transcript.asks.front == ask


async def test_an_ask_that_is_delivered_before_its_events_stands_below_the_steps() -> None:
    desk, ask = Desk(), Ask(AskId("a1"), "approval", "Push?", {"command": "git push"})
    make = ToolCall(CallId("c0"), "command", "make")
    (part,) = render(Content("", "ask", turn_id=TURN, ask=ask))
    async with anyio.create_task_group() as group:
        group.start_soon(desk.transcript.part, part)
        await anyio.wait_all_tasks_blocked()
        assert desk.paper.text == ""
        await desk.events(SessionStarted(), ToolStarted(make), ToolFinished(make.id, ok=True), Asked(ask))
    text = desk.paper.text
    assert text.count("git push") == 1
    assert text.index("$ make") < text.index("git push")


async def test_who_answered_elsewhere_is_told_once_and_above_what_follows() -> None:
    desk, ask = Desk(), Ask(AskId("a1"), "approval", "Push?")
    await desk.events(SessionStarted(), Asked(ask))
    asked = len(desk.paper.text)
    async with anyio.create_task_group() as group:
        group.start_soon(
            desk.events,
            AskChanged(ask.id, "answered", UserId("telegram:7"), "allowed"),
            TurnEnded("completed", "Pushed."),
        )
        await anyio.wait_all_tasks_blocked()
        (notice,) = render(Content("Allowed by Ada: Push?"))
        await desk.transcript.part(notice)
    await desk.send("Pushed.")
    assert desk.paper.text[asked:] == "\nAllowed by Ada: Push?\n\nPushed.\n\n✓ 0s\n"


async def test_an_ask_stays_open_when_its_turn_ends_until_it_is_said_to_be_settled() -> None:
    ask = Ask(AskId("a"), "approval", "May I?")
    desk = Desk()
    await desk.events(SessionStarted(), Asked(ask), TurnEnded("failed"))
    assert desk.transcript.asks.front == ask
    await desk.pass_time(5.0)
    await desk.events(AskChanged(ask.id, "answered", UserId("telegram:bob"), "denied: no"))
    assert desk.transcript.asks.front is None
    assert "→" not in desk.paper.text, "a message says who answered what"


async def test_an_ask_of_before_that_is_sent_now_is_open_unless_it_was_settled() -> None:
    ask = Ask(AskId("a"), "approval", "May I?")
    (part,) = render(Content("Still open: May I?", "ask", turn_id=TURN, ask=ask))
    for settled in (False, True):
        desk = Desk(since=1000.0)
        await desk.events(SessionStarted(), Asked(ask), TurnEnded("failed"), at=900.0)
        if settled:
            await desk.events(AskChanged(ask.id, "answered"), at=910.0)
        await desk.transcript.part(part)
        assert desk.transcript.asks.front == (None if settled else ask)
        assert ("May I?" in desk.paper.text) is not settled


async def test_an_ask_that_changes_after_its_turn_does_not_tell_the_turn_again() -> None:
    ask = Ask(AskId("a"), "approval", "May I?")
    desk = Desk(since=1000.0)
    lost = TurnEnded("failed", failure=Failure("crash", "It was lost."))
    await desk.events(SessionStarted(), Asked(ask), lost, turn=TurnId("old"), at=900.0)
    await desk.events(SessionStarted(), TurnEnded("completed", "Good."))
    await desk.send("Good.")
    await desk.events(AskChanged(ask.id, "answered", UserId("telegram:bob")), turn=TurnId("old"))
    await desk.pass_time(5.0)
    assert "Good." in desk.paper.text
    assert "It was lost." not in desk.paper.text
    assert (desk.paper.line, desk.transcript.running, desk.transcript.safe_seq) == ("", False, 6)


async def test_what_comes_of_a_turn_that_was_closed_before_is_no_running_turn() -> None:
    ask = Ask(AskId("a"), "approval", "May I?")
    desk = Desk()
    await desk.transcript.asked(ask)
    await desk.events(AskChanged(ask.id, "expired"), turn=TurnId("old"))
    assert "→ May I? · expired" in desk.paper.text
    (part,) = render(Content("It was lost.", "notice", turn_id=TurnId("old")))
    await desk.transcript.part(part)
    await desk.pass_time(5.0)
    assert desk.paper.text.count("It was lost.") == 1
    assert (desk.paper.line, desk.transcript.running) == ("", False)


async def test_the_end_of_a_turn_comes_before_the_text_of_the_next() -> None:
    """S2: the end of a stopped turn, delivered to another terminal, was printed below the next answer."""
    desk = Desk()
    await desk.events(SessionStarted(), TextDelta("b", "Half."), TurnEnded("cancelled"), turn=TurnId("t1"))
    await desk.events(*streamed("Next.\n\nMore."), turn=TurnId("t2"))
    await desk.pass_time(1.0)
    assert desk.paper.text == "  Half.\n■ stopped · 0s\n\nNext.\n"


async def test_a_message_from_elsewhere_is_shown_before_its_answer() -> None:
    """S2: the other chat showed answers without the question that they answer."""
    desk = Desk()
    desk.transcript.expect("typed here")
    for turn, text in (("t1", "typed here"), ("t2", "typed there")):
        await desk.events(SessionStarted(), PromptAdded(text, "ada"), turn=TurnId(turn))
        await desk.events(TurnEnded("completed", "Yes."), turn=TurnId(turn))
        await desk.send("Yes.", turn=TurnId(turn))
    framed = '<messages>\n<message id="1" from="Bob">\nfrom the phone\n</message>\n</messages>'
    await desk.events(SessionStarted(), PromptAdded(framed, "Bob"), turn=TurnId("t3"))
    assert "typed here" not in desk.paper.text
    assert "❯ typed there\n\nYes.\n" in desk.paper.text
    assert desk.paper.text.endswith("❯ Bob: from the phone\n")


async def test_a_question_counts_as_read_only_while_it_is_the_one_on_the_screen() -> None:
    """S1: a key that was pressed as the question appeared counted."""
    desk = Desk()
    first, second = Ask(AskId("a"), "approval", "May I?"), Ask(AskId("b"), "approval", "And this?")
    await desk.events(SessionStarted(), Asked(first), Asked(second))
    assert (desk.transcript.asks.front, desk.transcript.asks.stood_s) == (first, 0.0)
    await desk.pass_time(5.0)
    assert desk.transcript.asks.stood_s == 5.0
    assert "And this?" not in desk.paper.text
    await desk.transcript.settle(first.id)
    assert (desk.transcript.asks.front, desk.transcript.asks.stood_s) == (second, 0.0)
    assert "And this?" in desk.paper.text


async def test_an_answer_counts_only_for_the_question_that_was_on_the_screen() -> None:
    """S1: between Enter and its effect, another question may have taken the place of the one that was read."""
    desk = Desk()
    first, second = Ask(AskId("a"), "approval", "May I?"), Ask(AskId("b"), "approval", "And this?")
    await desk.events(SessionStarted(), Asked(first), Asked(second))
    asks = desk.transcript.asks
    assert not asks.is_stale("yes", first)
    await desk.events(AskChanged(first.id, "answered", UserId("telegram:bob"), "denied"))
    assert asks.front == second
    assert asks.is_stale("yes", first) and asks.is_stale("y", None)
    assert not asks.is_stale("yes, go on with the other file", first), "a message, whatever is asked"
    await desk.events(AskChanged(second.id, "expired"))
    assert asks.is_stale("yes", second), "it is no message"


@pytest.mark.parametrize("here", [True, False])
async def test_a_call_that_was_denied_did_not_fail(here: bool) -> None:
    """P1: a denial took five lines, and said "failed" of a command that was never run."""
    ask = Ask(AskId("a"), "approval", "make clean")
    desk = Desk()
    await desk.events(
        SessionStarted(), ToolStarted(ToolCall(CallId("c"), "command", "make clean")), Asked(ask)
    )
    denied = len(desk.paper.text)
    if here:
        desk.transcript.asks.answer_here(ask.id)
    await desk.events(
        AskChanged(ask.id, "answered", UserId("terminal:ada"), "denied"),
        ToolFinished(CallId("c"), ok=False),
        Notice("warning", "permission_denied", "Permission denied: make clean"),
        TurnEnded("cancelled"),
    )
    await desk.send("Stopped.")
    elsewhere = "" if here else "  → make clean · denied\n"
    assert desk.paper.text[denied:] == f"{elsewhere}■ stopped · 1 step · 0s\n"


async def test_a_stop_from_here_closes_its_ask_without_a_further_line() -> None:
    ask = Ask(AskId("a"), "approval", "make clean")
    desk = Desk()
    await desk.events(
        SessionStarted(), ToolStarted(ToolCall(CallId("c"), "command", "make clean")), Asked(ask)
    )
    asked = len(desk.paper.text)
    desk.transcript.stop_here()
    await desk.events(AskChanged(ask.id, "withdrawn"), ToolFinished(CallId("c"), ok=False))
    await desk.transcript.part(render(Content("No longer open: make clean (its turn ended)", "notice"))[0])
    await desk.events(TurnEnded("cancelled"))
    await desk.send("Stopped.")
    assert desk.paper.text[asked:] == "■ stopped · 1 step · 0s\n"
    await desk.transcript.part(render(Content("make clean is mentioned", "notice"))[0])
    assert "make clean is mentioned" in desk.paper.text, "one message is left out, not more"


async def test_a_call_that_a_rule_denied_did_not_fail() -> None:
    desk = Desk()
    await desk.events(SessionStarted(), ToolStarted(ToolCall(CallId("c"), "command", "git push")))
    began = len(desk.paper.text)
    await desk.events(ToolFinished(CallId("c"), ok=False, denied="matches the rule `deny command git push`"))
    await desk.send("Denied by your rule: deny command git push (git push)")
    assert "failed" not in desk.paper.text[began:]
    assert desk.paper.text[began:].count("git push)") == 1


@given(st.lists(st.text(alphabet="ab\n`- 1.", max_size=20), max_size=12).map("\n".join))
def test_blocks_keep_every_line_that_says_something(text: str) -> None:
    def said(parts: list[str]) -> list[str]:
        return [line.strip() for part in parts for line in part.split("\n") if line.strip()]

    assert said(blocks(text)) == said([text])


@given(st.lists(st.text(alphabet="ab\n`- 1.", max_size=20), max_size=12).map("\n".join), st.integers(0, 99))
def test_a_complete_block_never_changes(text: str, cut: int) -> None:
    early = complete(text[:cut])
    assert blocks(text)[: len(early)] == early


@given(st.lists(st.sampled_from("abc"), max_size=8), st.lists(st.sampled_from("abc"), max_size=8))
def test_what_is_missing_completes_what_stands_there(wanted: list[str], printed: list[str]) -> None:
    rest = missing(wanted, printed)
    assert not wanted or (printed + rest)[-len(wanted) :] == wanted


def test_a_loose_list_and_its_indented_text_stay_together() -> None:
    assert blocks("1. one\n\n   more\n\n2. two\n\ntext") == ["1. one\n\n   more\n\n2. two", "text"]


async def test_where_no_line_is_live_a_call_is_told_to_run_only_once_it_may() -> None:
    ask = Ask(AskId("a"), "approval", "make clean")
    desk = Desk(live=False)
    await desk.events(
        SessionStarted(), ToolStarted(ToolCall(CallId("c"), "command", "make clean")), Asked(ask)
    )
    await desk.pass_time(1.0)
    assert "Running" not in desk.paper.text
    await desk.events(AskChanged(ask.id, "answered", UserId("telegram:bob"), "allowed"))
    assert "Running command… make" in desk.paper.text


async def test_a_call_that_was_denied_is_never_told_to_run() -> None:
    ask = Ask(AskId("a"), "approval", "make clean")
    desk = Desk(live=False)
    await desk.events(
        SessionStarted(), ToolStarted(ToolCall(CallId("c"), "command", "make clean")), Asked(ask)
    )
    await desk.events(
        AskChanged(ask.id, "answered", UserId("telegram:bob"), "denied"), TurnEnded("cancelled")
    )
    assert "Running" not in desk.paper.text
