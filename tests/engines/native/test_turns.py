"""Turns of the native agent, with a scripted model and real tools."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable
from pathlib import Path

import pytest
from anyio import to_thread
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply, Request
from tests.engines.native.pairs import unpaired
from tests.engines.native.rig import Rig, ask, end_of

from pilothouse.core.ask import Decision
from pilothouse.core.engine import EngineSession, Interruptible, Steerable
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    Notice,
    PlanChanged,
    PlanItem,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from pilothouse.core.turn import Prompt
from pilothouse.core.view import TurnView, fold
from pilothouse.engines.native.history import History
from pilothouse.engines.native.messages import Replied, Use
from pilothouse.testing.engine import resumed

pytestmark = pytest.mark.anyio
DIALECTS = ("anthropic", "openai", "openrouter", "compatible")
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20
DONE = Reply("All done.")


def notices(events: list[EngineEvent]) -> list[str]:
    return [event.kind for event in events if isinstance(event, Notice)]


def outputs(events: list[EngineEvent]) -> list[tuple[bool, str]]:
    return [(event.ok, event.output) for event in events if isinstance(event, ToolFinished)]


def asks(events: list[EngineEvent]) -> list[str]:
    return [event.ask.title for event in events if isinstance(event, Asked)]


def shown(events: list[EngineEvent]) -> str:
    view = TurnView()
    for at, event in enumerate(events):
        view = fold(view, event, float(at))
    return view.text


class Stop:
    """Interrupts the turn at one of its events."""

    def __init__(self, session: EngineSession, at: int) -> None:
        assert isinstance(session, Interruptible)
        self._stop = session.interrupt
        self._left = at

    def __call__(self, event: EngineEvent) -> Awaitable[object] | None:
        self._left -= 1
        return self._stop() if self._left == -1 else None


def busy_turn(rig: Rig) -> tuple[Reply, ...]:
    (rig.workspace / "a.txt").write_text("alpha\n")
    (rig.workspace / "b.png").write_bytes(PNG)
    calls = [Call("read", {"file_path": "a.txt"}), Call("view_image", {"file_path": "b.png"})]
    return Reply("Let me look.", calls, thinking="Which files?"), Reply("It says alpha.")


@pytest.mark.parametrize("provider", DIALECTS)
async def test_one_turn_gives_the_same_events_in_every_dialect(make_rig: MakeRig, provider: str) -> None:
    rig = make_rig(provider=provider)
    replies = list(busy_turn(rig))
    rig.model.script = lambda _request: replies.pop(0)
    events = await rig.turn()
    assert [event.text for event in events if isinstance(event, ThinkingDelta)] == ["Which f", "iles?"]
    assert shown(events) == "Let me look.\n\nIt says alpha."
    assert [event.call.title for event in events if isinstance(event, ToolStarted)] == [
        "read: a.txt",
        "image: b.png",
    ]
    assert sorted(output.split("\n")[0] for _, output in outputs(events)) == [
        "    1  alpha",
        "image/png, 28 bytes",
    ]
    end = end_of(events)
    assert end.outcome == "completed"
    assert end.usage is not None
    assert (end.usage.steps, end.usage.input_tokens, end.usage.output_tokens) == (2, 20, 14)
    last = rig.model.requests[-1]
    assert unpaired(last.body) == set()
    assert "iVBORw0KGgow" in last.text
    assert (
        any(mark in last.text for mark in ("signed", "sealed", "reasoning.text")) or provider == "compatible"
    )


@pytest.mark.parametrize("provider", ["anthropic", "openai", "compatible"])
async def test_a_stop_at_any_event_leaves_no_dangling_call(make_rig: MakeRig, provider: str) -> None:
    rig = make_rig(provider=provider)
    first, second = busy_turn(rig)
    rig.model.script = lambda request: (
        second if "alpha" in request.text or "again" in request.prompt else first
    )
    whole = len(await rig.turn("look"))
    async with rig.engine() as engine:
        for stop_at in range(whole):
            async with engine.open(rig.brief()) as session:
                end_of(await ask(session, "look", react=Stop(session, stop_at)))
                assert end_of(await ask(session, "again")).outcome == "completed"
                assert unpaired(rig.model.requests[-1].body) == set()


async def test_a_killed_turn_goes_on_from_its_history(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Fine."))
    token = end_of(await rig.turn("first")).resume
    assert token is not None
    history = History(Path(rig.host.state_dir, "sessions", token.value))
    history.load()
    history.add(Replied((Use("cut", "bash", {"command": "make"}),)))
    async with rig.engine() as engine, engine.open(resumed(rig.brief(), token)) as session:
        assert end_of(await ask(session, "second")).outcome == "completed"
    request = rig.model.requests[-1]
    assert unpaired(request.body) == set()
    assert "first" in request.text
    assert "interrupted before its result was known" in request.text


async def test_an_edit_is_asked_about_and_carries_its_change(make_rig: MakeRig) -> None:
    change = {"file_path": "a.txt", "old_string": "alpha", "new_string": "beta"}
    rig = make_rig(Reply(calls=[Call("edit", change)]), DONE)
    (rig.workspace / "a.txt").write_text("alpha\n")
    events = await rig.turn()
    asked = next(event.ask for event in events if isinstance(event, Asked))
    assert asked.call is not None
    assert asked.call.kind == "change"
    assert asked.call.change is not None
    assert asked.call.change.replacements[0].new == "beta"
    assert (rig.workspace / "a.txt").read_text() == "beta\n"


async def test_a_plain_no_ends_the_turn_and_every_call_has_a_result(make_rig: MakeRig) -> None:
    calls = [Call("bash", {"command": "touch one"}), Call("bash", {"command": "touch two"})]
    rig = make_rig(Reply(calls=calls), DONE)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        events = await ask(session, "go", Decision("deny"))
        assert end_of(events).outcome == "cancelled"
        assert len(asks(events)) == 1
        assert len(rig.model.requests) == 1
        await ask(session, "go on")
    assert unpaired(rig.model.requests[-1].body) == set()
    assert list(rig.workspace.iterdir()) == []


async def test_a_no_with_a_reason_and_a_denying_rule_are_told_to_the_model(make_rig: MakeRig) -> None:
    calls = [Call("bash", {"command": "touch one"}), Call("bash", {"command": "git push"})]
    rig = make_rig(Reply(calls=calls), DONE, rules=["deny command git push"])
    events = await rig.turn(decision=Decision("deny", text="not today"))
    assert end_of(events).outcome == "completed"
    told = "".join(rig.model.requests[-1].results)
    assert "not today" in told
    assert "deny command git push" in told


async def test_a_person_may_change_the_input_of_a_call(make_rig: MakeRig) -> None:
    rig = make_rig(Reply(calls=[Call("bash", {"command": "touch one"})]), DONE)
    await rig.turn(decision=Decision("allow", input={"command": "touch other"}))
    assert [path.name for path in rig.workspace.iterdir()] == ["other"]


async def test_words_sent_during_a_turn_reach_the_next_request_and_later_ones_are_not_taken(
    make_rig: MakeRig,
) -> None:
    asked, steered = threading.Event(), threading.Event()
    replies = [Reply(calls=[Call("todo", {"items": []})]), Reply("First."), Reply("Second.")]

    def script(request: Request) -> Reply:
        if len(replies) == 2:  # the second request is under way while words come
            asked.set()
            assert steered.wait(60)
        return replies.pop(0)

    rig = make_rig(script=script)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        assert isinstance(session, Steerable)
        taken: list[bool] = []

        async def steer(event: EngineEvent) -> None:
            if isinstance(event, ToolFinished):
                await to_thread.run_sync(asked.wait, 60)
                taken.append(await session.steer(Prompt("also this")))
                steered.set()
            elif isinstance(event, TurnEnded):
                taken.append(await session.steer(Prompt("too late")))

        events = await ask(session, "go", react=steer)
    assert taken == [True, False]
    assert shown(events) == "First.\n\nSecond."
    assert "also this" in rig.model.requests[-1].text


async def test_a_turn_makes_at_most_so_many_requests_and_then_sums_up(make_rig: MakeRig) -> None:
    def script(request: Request) -> Reply:
        closed = request.body.get("tool_choice") == {"type": "none"}
        return Reply("That was it.") if closed else Reply(calls=[Call("todo", {"items": []})])

    rig = make_rig(script=script, max_calls=3)
    events = await rig.turn()
    assert end_of(events).outcome == "completed"
    assert shown(events) == "That was it."
    assert len(rig.model.requests) == 4


async def test_a_busy_model_is_asked_again_after_the_pause_that_it_wants(make_rig: MakeRig) -> None:
    busy = Reply("Slow down.", status=429, code="rate_limit_error", headers={"retry-after": "7"})
    rig = make_rig(busy, Reply(status=529, text="Overloaded"), DONE)
    events = await rig.turn()
    assert end_of(events).outcome == "completed"
    assert rig.pauses == [7.0, 1.0]
    assert notices(events) == ["api_retry", "api_retry"]


async def test_a_long_pause_ends_the_turn_with_the_time_of_the_next_try(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Later.", status=429, code="rate_limit_error", headers={"retry-after": "3600"}))
    failure = end_of(await rig.turn()).failure
    assert failure is not None
    assert failure.kind == "rate_limit"
    assert failure.retry_at is not None
    assert rig.pauses == []


@pytest.mark.parametrize(
    ("reply", "kind", "word"),
    [
        (Reply("bad key", status=401, code="authentication_error"), "auth", "ANTHROPIC_API_KEY"),
        (Reply("Your credit balance is too low", status=400), "quota", "credit"),
        (Reply("model: scripted", status=404, code="not_found_error"), "bad_request", "/model"),
        (Reply(page="<html>Bad gateway</html>"), "bad_request", "base_url"),
    ],
)
async def test_a_failure_says_what_to_do(make_rig: MakeRig, reply: Reply, kind: str, word: str) -> None:
    failure = end_of(await make_rig(reply).turn()).failure
    assert failure is not None
    assert failure.kind == kind
    assert word in failure.fix


async def test_half_a_stream_is_withdrawn_and_asked_for_again(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Half of an answer", cut=400), DONE)
    events = await rig.turn()
    assert end_of(events).answer == "All done."
    assert shown(events) == "All done."


async def test_the_fallback_takes_over_when_the_model_is_missing(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("gone", status=404, code="not_found_error"), DONE, fallback_model="other")
    events = await rig.turn()
    assert end_of(events).outcome == "completed"
    assert [request.body["model"] for request in rig.model.requests] == ["scripted", "other"]


async def test_broken_arguments_and_an_unknown_tool_are_told_to_the_model(make_rig: MakeRig) -> None:
    calls = [Call("read", {}, raw='{"file_path": '), Call("fly", {}), Call("read", {"offset": 1})]
    events = await (rig := make_rig(Reply(calls=calls), DONE)).turn()
    assert end_of(events).outcome == "completed"
    told = [output for _, output in outputs(events)]
    assert any("not a JSON object" in text for text in told)
    assert any("no tool 'fly'" in text for text in told)
    assert any("The input of read is wrong" in text for text in told)
    assert unpaired(rig.model.requests[-1].body) == set()


async def test_a_model_that_sends_broken_arguments_may_try_once_more(make_rig: MakeRig) -> None:
    broken = Reply(calls=[Call("read", {}, raw='{"file')])
    rig = make_rig(broken, Reply(calls=[Call("todo", {"items": []})]), broken, broken, DONE)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        failure = end_of(await ask(session, "go")).failure
        assert failure is not None and "no JSON, 2 replies in a row" in failure.text
        assert len(rig.model.requests) == 4
        assert end_of(await ask(session, "again")).outcome == "completed"
    assert unpaired(rig.model.requests[-1].body) == set()


async def test_a_no_ends_a_turn_also_beside_a_second_broken_call(make_rig: MakeRig) -> None:
    broken, command = Call("read", {}, raw='{"file'), Call("bash", {"command": "make"})
    rig = make_rig(Reply(calls=[broken]), Reply(calls=[broken, command]))
    end = end_of(await rig.turn(decision=Decision("deny")))
    assert (end.outcome, end.failure) == ("cancelled", None)


async def test_an_overflow_is_compacted_once_and_keeps_the_newest_words(make_rig: MakeRig) -> None:
    state = {"full": True}

    def script(request: Request) -> Reply:
        if "<transcript>" in request.text:
            return Reply("<goals>\n- ship it\n</goals>\n<summary>We began.</summary>")
        if state["full"]:
            return Reply("prompt is too long: 300000 tokens", status=400, code="invalid_request_error")
        return DONE

    rig = make_rig(script=script)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        failed = await ask(session, "the very words")
        failure = end_of(failed).failure
        assert failure is not None and failure.kind == "context_overflow"
        assert notices(failed).count("compacted") == 1
        state["full"] = False
        assert end_of(await ask(session, "/compact")).outcome == "completed"
        await ask(session, "go on")
    last = rig.model.requests[-1]
    assert "the very words" in last.text and "ship it" in last.text and "We began." in last.text


async def test_a_full_window_is_compacted_before_the_next_request(make_rig: MakeRig) -> None:
    summary = Reply("<summary>Short.</summary>")
    rig = make_rig(Reply("Long.", tokens=90_000), summary, DONE)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        await ask(session, "one")
        events = await ask(session, "two")
    assert notices(events) == ["compaction", "compacted"]
    assert "Short." in rig.model.requests[-1].text and "two" in rig.model.requests[-1].text


async def test_a_budget_ends_the_turn(make_rig: MakeRig) -> None:
    rig = make_rig(Reply(calls=[Call("todo", {"items": []})]), model="claude-sonnet-4-6")
    events = await rig.turn(budget_usd=0.0001)
    failure = end_of(events).failure
    assert failure is not None
    assert failure.kind == "budget"
    assert len(rig.model.requests) == 1


async def test_done_ends_the_turn_and_todo_is_the_plan(make_rig: MakeRig) -> None:
    items = [{"content": "look", "status": "completed"}, {"content": "act", "status": "in_progress"}]
    calls = [Call("todo", {"items": items}), Call("done", {"message": "Ready."})]
    rig = make_rig(Reply(calls=calls))
    events = await rig.turn()
    plan = [event.items for event in events if isinstance(event, PlanChanged)]
    assert plan == [(PlanItem("look", "done"), PlanItem("act", "active"))]
    assert end_of(events).answer == "Ready."
    assert len(rig.model.requests) == 1


async def test_a_long_output_is_cut_and_can_be_searched(make_rig: MakeRig) -> None:
    rig = make_rig(
        Reply(calls=[Call("bash", {"command": "seq 1 20000"}, id="many")]),
        Reply(calls=[Call("tool_output_cache_grep", {"ref": "many", "pattern": "^19999$"})]),
        DONE,
    )
    events = await rig.turn(approval_mode="full-access")
    (_, long), (ok, found) = outputs(events)
    assert "ref=many" in json.loads(rig.model.requests[1].results[0])[0]["text"]
    assert len(rig.model.requests[1].data) < 80_000
    assert long.startswith("1\n2\n")
    assert ok and "19999" in found


async def test_an_interrupted_command_ends_with_its_whole_tree(make_rig: MakeRig) -> None:
    command = "setsid sleep 600 & echo started > started; sleep 600"
    rig = make_rig(Reply(calls=[Call("bash", {"command": command})]), DONE)
    async with rig.engine() as engine, engine.open(rig.brief(approval_mode="full-access")) as session:
        assert isinstance(session, Interruptible)
        stop = session.interrupt
        events = await ask(session, "go", react=lambda e: stop() if isinstance(e, ToolStarted) else None)
    assert end_of(events).outcome == "cancelled"
    assert rig.leftovers() == []


async def test_the_next_session_cannot_take_one_that_is_open(make_rig: MakeRig) -> None:
    rig = make_rig(DONE)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        token = end_of(await ask(session, "hi")).resume
        with pytest.raises(Exception, match="in use"):
            async with engine.open(resumed(rig.brief(), token)):
                pass
