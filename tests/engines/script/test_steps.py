"""Every harmless step, played by the real program."""

from __future__ import annotations

import re
from typing import Any, get_args

import anyio
import pytest
from tests.engines.script.rig import Rig, answer_with, play, read

from pilothouse.core.ask import Decision, Option
from pilothouse.core.call import Call
from pilothouse.core.event import (
    Asked,
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
    ToolKind,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    Usage,
    UsageChanged,
)
from pilothouse.core.ids import CallId
from pilothouse.core.outcome import FailureKind
from pilothouse.core.policy import ApprovalMode, Site
from pilothouse.core.turn import Prompt
from pilothouse.engines.script.engine import DEMO
from pilothouse.engines.script.steps import FAILURE_KINDS, TOOL_KINDS, load_script
from pilothouse.policy.decide import PolicyEnv, decide

pytestmark = pytest.mark.anyio
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)


def end_of(events: list[EngineEvent]) -> TurnEnded:
    end = events[-1]
    assert isinstance(end, TurnEnded)
    return end


def start_of(events: list[EngineEvent]) -> SessionStarted:
    start = events[0]
    assert isinstance(start, SessionStarted)
    return start


def steps_of(events: list[EngineEvent]) -> list[EngineEvent]:
    assert start_of(events)
    return events[1:-1]


def test_the_format_knows_the_kinds_of_the_core() -> None:
    assert get_args(ToolKind) == TOOL_KINDS
    assert get_args(FailureKind) == FAILURE_KINDS


async def test_say_sets_a_block_and_knows_the_prompt(rig: Rig) -> None:
    events = await play(rig, {"say": "You wrote {prompt}, and {this} stays."}, {"say": "Second."})
    assert steps_of(events) == [
        TextSet("block-1", "You wrote Hello, and {this} stays."),
        TextSet("block-2", "Second."),
    ]
    assert end_of(events).answer == "You wrote Hello, and {this} stays.\n\nSecond."


async def test_stream_cuts_text_into_chunks(rig: Rig) -> None:
    events = await play(rig, {"stream": "abcdefgh", "chunk": 3, "every_s": 0})
    assert steps_of(events) == [TextDelta("block-1", text) for text in ("abc", "def", "gh")]
    assert end_of(events).answer == "abcdefgh"


async def test_think_is_no_part_of_the_answer(rig: Rig) -> None:
    events = await play(rig, {"think": "hm"}, {"say": "so"})
    assert ThinkingDelta("hm") in events
    assert end_of(events).answer == "so"


@pytest.mark.parametrize("ok", [True, False])
async def test_a_tool_opens_and_closes(rig: Rig, ok: bool) -> None:
    events = await play(rig, {"tool": "search", "title": "todo", "output": "3 hits", "ok": ok})
    call = ToolCall(CallId("call-1"), "search", "todo")
    assert steps_of(events) == [ToolStarted(call), ToolFinished(CallId("call-1"), ok, "3 hits")]


async def test_a_plan_has_done_active_and_pending_items(rig: Rig) -> None:
    events = await play(rig, {"plan": ["a", "b", "c"], "done": 1, "active": 1})
    items = (PlanItem("a", "done"), PlanItem("b", "active"), PlanItem("c"))
    assert steps_of(events) == [PlanChanged(items)]


async def test_an_image_is_kept_and_named(rig: Rig) -> None:
    (rig.folder / "cat.png").write_bytes(PNG)
    events = await play(rig, {"image": "cat.png"})
    assert isinstance(media := events[1], MediaProduced)
    assert (media.attachment.name, media.attachment.media_type, media.attachment.size) == (
        "cat.png",
        "image/png",
        len(PNG),
    )
    assert rig.blobs.kept[media.attachment.blob] == PNG


async def test_notice_usage_and_sleep(rig: Rig) -> None:
    usage = {"cost_usd": 0.5, "input_tokens": 7}
    events = await play(
        rig, {"notice": "look", "level": "warning", "kind": "k"}, {"usage": usage}, {"sleep": 0}
    )
    assert steps_of(events) == [
        Notice("warning", "k", "look"),
        UsageChanged(Usage(cost_usd=0.5, input_tokens=7, steps=2)),
    ]
    assert end_of(events).usage == Usage(cost_usd=0.5, input_tokens=7, steps=3)


async def test_a_script_that_names_no_cost_tells_none(rig: Rig) -> None:
    assert end_of(await play(rig, {"say": "a"})).usage == Usage(steps=1)


async def test_fail_ends_the_turn_with_any_kind(rig: Rig) -> None:
    steps: list[list[dict[str, Any]]] = [[{"fail": kind, "text": f"no {kind}"}] for kind in FAILURE_KINDS]
    async with rig.engine(*steps) as engine, engine.open(rig.brief()) as session:
        for kind in FAILURE_KINDS:
            end = end_of(await read(session))
            assert end.failure is not None
            assert (end.outcome, end.failure.kind, end.failure.text) == ("failed", kind, f"no {kind}")
            assert end.failure.retry_at is None


async def test_fail_may_say_when_to_try_again(rig: Rig) -> None:
    end = end_of(await play(rig, {"say": "so far"}, {"fail": "rate_limit", "retry_in_s": 60, "detail": "d"}))
    assert end.failure is not None
    assert end.failure.retry_at is not None
    assert (end.answer, end.failure.detail) == ("so far", "d")


ASK: dict[str, Any] = {
    "ask": "Run it?",
    "payload": {"command": "make"},
    "on_allow": [{"say": "allowed"}],
    "on_deny": [{"say": "denied: {answer}"}],
    "on_answer": [{"say": "chosen: {answer}"}],
}
BARE: dict[str, Any] = {"ask": "Run it?"}


@pytest.mark.parametrize(
    ("step", "decision", "outcome", "answer"),
    [
        (ASK, Decision("allow"), "completed", "allowed\n\nafter"),
        (ASK, Decision("deny", text="too late"), "completed", "denied: too late\n\nafter"),
        (ASK, Decision("deny"), "cancelled", ""),
        (ASK, Decision("answer", options=("a", "b"), text="c"), "completed", "chosen: a, b, c\n\nafter"),
        (BARE, Decision("allow"), "completed", "after"),
        (
            BARE,
            Decision("deny", text="no"),
            "completed",
            "You said no (no), so I go on without it.\n\nafter",
        ),
        (BARE, Decision("deny"), "cancelled", ""),
        (BARE, Decision("answer", text="42"), "completed", "You answered: 42\n\nafter"),
    ],
)
async def test_an_ask_goes_on_as_it_was_decided(
    rig: Rig, step: dict[str, Any], decision: Decision, outcome: str, answer: str
) -> None:
    end = end_of(await play(rig, step, {"say": "after"}, decision=decision))
    assert (end.outcome, end.answer) == (outcome, answer)


async def test_a_question_has_options_or_free_text(rig: Rig) -> None:
    events = await play(
        rig,
        {"ask": "Which?", "kind": "question", "options": ["red", "blue"]},
        {"ask": "Why?", "kind": "question"},
        decision=Decision("answer", text="x"),
    )
    first, second = (event.ask for event in events if isinstance(event, Asked))
    assert (first.options, first.free_text) == ((Option("red", "red"), Option("blue", "blue")), False)
    assert (second.options, second.free_text, second.kind) == ((), True, "question")


async def test_turns_are_taken_in_order_and_the_last_repeats(rig: Rig) -> None:
    async with (
        rig.engine([{"say": "one"}], [{"say": "two"}]) as engine,
        engine.open(rig.brief()) as session,
    ):
        assert [end_of(await read(session)).answer for _ in range(3)] == ["one", "two", "two"]


async def test_a_turn_that_matches_comes_before_the_order(rig: Rig) -> None:
    path = rig.write([{"say": "plain"}])
    path.write_text(path.read_text() + '\n[[turn]]\nmatch = "Magic"\nsteps = [{ say = "matched" }]')
    async with rig.engine(script=str(path)) as engine, engine.open(rig.brief()) as session:
        assert end_of(await read(session, "the MAGIC word")).answer == "matched"
        assert end_of(await read(session, "nothing")).answer == "plain"


async def test_a_script_without_a_turn_for_the_prompt_says_so(rig: Rig) -> None:
    path = rig.folder / "only.toml"
    path.write_text('[[turn]]\nmatch = "xyz"\nsteps = []')
    async with rig.engine(script=str(path)) as engine, engine.open(rig.brief()) as session:
        failure = end_of(await read(session)).failure
    assert failure is not None
    assert failure.kind == "bad_request"


async def test_a_turn_cut_at_its_ask_asks_the_same_again_when_resumed(rig: Rig) -> None:
    turns: list[list[dict[str, Any]]] = [[{"say": "first"}], [{"ask": "Delete {prompt}?"}, {"say": "gone"}]]
    async with rig.engine(*turns) as engine:
        async with engine.open(rig.brief()) as session:
            await read(session)
            cut: list[EngineEvent] = []
            async for event in session.run(Prompt("build")):
                cut.append(event)
                if isinstance(event, Asked):
                    break
        async with engine.open(rig.brief(resume=start_of(cut).resume)) as session:
            again = await read(session, "build", answer_with(session, Decision("allow")))
    asked = [event.ask for event in (*cut, *again) if isinstance(event, Asked)]
    assert [ask.title for ask in asked] == ["Delete build?"] * 2
    assert asked[0].payload_hash == asked[1].payload_hash
    assert asked[0].id != asked[1].id
    assert end_of(again).answer == "gone"


async def test_tokens_count_the_turns_that_ended(rig: Rig) -> None:
    async with rig.engine([{"say": "a"}]) as engine, engine.open(rig.brief()) as session:
        tokens: list[str] = []
        for _ in range(2):
            events = await read(session)
            for token in (start_of(events).resume, end_of(events).resume):
                assert token is not None
                assert (token.engine, token.cwd) == ("script", str(rig.folder))
                tokens.append(token.value)
    name = tokens[0].rpartition(".")[0]
    assert tokens == [f"{name}.0", f"{name}.1", f"{name}.1", f"{name}.2"]


@pytest.mark.parametrize(
    "step",
    [
        {"sleep": 600},
        {"stream": "word " * 1000, "every_s": 10},
        {"tool": "command", "for_s": 600},
        {"ask": "Well?"},
    ],
)
async def test_an_interrupt_is_heard_within_a_step(rig: Rig, step: dict[str, Any]) -> None:
    async with rig.engine([{"notice": "go"}, step]) as engine, engine.open(rig.brief()) as session:
        stop = session.interrupt
        with anyio.fail_after(60):
            events = await read(session, when=lambda event: stop() if isinstance(event, Notice) else None)
    assert end_of(events).outcome == "cancelled"
    assert sum(isinstance(e, ToolStarted) for e in events) == sum(isinstance(e, ToolFinished) for e in events)


async def test_what_is_steered_in_becomes_a_block(rig: Rig) -> None:
    async with (
        rig.engine([{"ask": "Go on?"}, {"say": "end"}]) as engine,
        engine.open(rig.brief()) as session,
    ):

        async def steer_then_allow(event: Asked) -> None:
            assert await session.steer(Prompt("be brief"))
            await session.answer(event.ask.id, Decision("allow"))

        events = await read(
            session, when=lambda event: steer_then_allow(event) if isinstance(event, Asked) else None
        )
    assert "Noted: be brief" in [event.text for event in events if isinstance(event, TextSet)]


async def test_attachments_reach_the_program_and_too_many_are_named(rig: Rig) -> None:
    small = await rig.blobs.put(b"abc", "a.txt", "text/plain")
    lost = small.__class__("lost.bin", "application/octet-stream", 30 << 20, small.blob)
    async with rig.engine([{"say": "seen"}]) as engine, engine.open(rig.brief()) as session:
        events = [event async for event in session.run(Prompt("look", attachments=(small, lost)))]
    notices = [event for event in events if isinstance(event, Notice)]
    assert [notice.kind for notice in notices] == ["attachment_skipped"]
    assert "lost.bin" in notices[0].text
    assert end_of(events).answer == "seen"


async def test_the_demo_is_honest_and_its_second_answer_is_short(rig: Rig) -> None:
    hurried = rig.folder / "demo.toml"
    hurried.write_text(re.sub(r"(every|for)_s = [0-9.]+", r"\1_s = 0", DEMO.read_text()))
    async with rig.engine(script=str(hurried)) as engine, engine.open(rig.brief()) as session:
        first = await read(session, when=answer_with(session, Decision("allow")))
        second = await read(session)
    kinds = {type(event) for event in first}
    assert {TextDelta, PlanChanged, ToolStarted, Asked, ThinkingDelta} <= kinds
    assert "This is the demo" in end_of(first).answer
    assert "docs/extending.md" in end_of(first).answer
    assert not any(isinstance(event, ToolStarted | ToolUpdated) for event in second)
    assert "`/new`" in end_of(second).answer, "how to see it again"
    assert len(end_of(second).answer) < 300


async def test_the_demo_pretends_to_run_what_a_person_put_in_its_place(rig: Rig) -> None:
    """P14: the demo named the command that it had asked for."""
    hurried = rig.folder / "demo.toml"
    hurried.write_text(re.sub(r"(every|for)_s = [0-9.]+", r"\1_s = 0", DEMO.read_text()))
    for given, command in ((None, "rm -rf build"), ({"command": "ls build"}, "ls build")):
        async with rig.engine(script=str(hurried)) as engine, engine.open(rig.brief()) as session:
            events = await read(session, when=answer_with(session, Decision("allow", input=given)))
        assert f"would have run `{command}` now" in end_of(events).answer


async def test_rules_and_modes_can_read_what_the_demo_asks(rig: Rig) -> None:
    hurried = rig.folder / "demo.toml"
    hurried.write_text(re.sub(r"(every|for)_s = [0-9.]+", r"\1_s = 0", DEMO.read_text()))
    brief = rig.brief()
    async with rig.engine(script=str(hurried)) as engine, engine.open(brief) as session:
        events = await read(session, when=answer_with(session, Decision("allow")))
    ask = next(event.ask for event in events if isinstance(event, Asked))
    call = ask.call
    assert call is not None
    assert (call.kind, call.command, call.cwd) == ("command", "rm -rf build", brief.workspace)
    outcomes: dict[ApprovalMode, str] = {"minimal": "ask", "trusted": "ask", "full-access": "allow"}
    for mode, outcome in outcomes.items():
        ruling = decide(ask, [], Site(brief.workspace, mode=mode), PolicyEnv())
        assert ruling.outcome == outcome


async def test_a_step_may_say_what_would_run(rig: Rig) -> None:
    step = {"ask": "Look?", "call": {"kind": "read", "paths": ["a.txt"]}}
    brief = rig.brief()
    async with rig.engine([step]) as engine, engine.open(brief) as session:
        events = await read(session, when=answer_with(session, Decision("allow")))
    ask = next(event.ask for event in events if isinstance(event, Asked))
    assert ask.call == Call("read", cwd=brief.workspace, paths=("a.txt",))
    assert ask.payload == {"kind": "approval", "title": "Look?", "call": step["call"]}


async def test_without_a_script_the_demo_is_played(rig: Rig) -> None:
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        stop = session.interrupt
        events = await read(session, when=lambda event: stop() if isinstance(event, TextSet) else None)
    assert "This is the demo" in end_of(events).answer


def test_the_demo_takes_about_ten_seconds() -> None:
    assert 6 < sum(map(seconds_of, load_script(DEMO).turns[0]["steps"])) < 11


def seconds_of(step: dict[str, Any]) -> float:
    nested = sum(map(seconds_of, step.get("on_allow", [])))
    chunks = len(step.get("stream", "")) / step.get("chunk", 8)
    return nested + step.get("for_s", 0) + step.get("sleep", 0) + chunks * step.get("every_s", 0.02)
