"""Compaction: nothing that people said is lost, and nothing is dropped without a word."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

import anyio
import pytest
from anyio.to_thread import run_sync
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Reply, Request
from tests.engines.native.rig import ask, end_of

from pilothouse.core.engine import Steerable
from pilothouse.core.event import EngineEvent, Notice
from pilothouse.core.turn import Prompt

pytestmark = pytest.mark.anyio
FULL = Reply("prompt is too long: 300000 tokens", status=400, code="invalid_request_error")
BUSY = Reply("Slow down.", status=429, code="rate_limit_error", headers={"retry-after": "2"})
WITHIN_S = 60.0


def asks_for_summary(request: Request) -> bool:
    return "<transcript>" in request.text


def notices(events: Sequence[EngineEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in events if isinstance(event, Notice)]


async def test_words_sent_during_a_compaction_reach_the_model(make_rig: MakeRig) -> None:
    begun, steered = Event(), Event()
    replies = [Reply("Long.", tokens=90_000), Reply("Done.")]

    def script(request: Request) -> Reply:
        if not asks_for_summary(request):
            return replies.pop(0)
        begun.set()
        steered.wait(WITHIN_S)
        return Reply("<summary>Short.</summary>")

    rig = make_rig(script=script)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        assert isinstance(session, Steerable)
        await ask(session, "one")
        async with anyio.create_task_group() as tasks:

            async def steer() -> None:
                await run_sync(begun.wait, WITHIN_S)
                assert await session.steer(Prompt("do not delete the database"))
                steered.set()

            tasks.start_soon(steer)
            await ask(session, "two")
    last = rig.model.requests[-1].text
    assert "Short." in last
    assert "do not delete the database" in last


async def test_a_busy_provider_is_asked_again_for_the_summary(make_rig: MakeRig) -> None:
    rig = make_rig(FULL, BUSY, Reply("<summary>We began.</summary>"), Reply("Done."))
    events = await rig.turn()
    assert end_of(events).outcome == "completed"
    assert rig.pauses == [2.0]
    assert [kind for kind, _ in notices(events)] == ["compaction", "api_retry", "compacted"]
    assert "We began." in rig.model.requests[-1].text


async def test_a_provider_that_stays_busy_fails_the_turn_and_drops_nothing(make_rig: MakeRig) -> None:
    state = {"up": False}

    def script(request: Request) -> Reply:
        if state["up"]:
            return Reply("Done.")
        return BUSY if asks_for_summary(request) else FULL

    rig = make_rig(script=script)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        failed = await ask(session, "the first words")
        failure = end_of(failed).failure
        assert failure is not None and failure.kind == "rate_limit"
        assert "compacted" not in [kind for kind, _ in notices(failed)]
        state["up"] = True
        await ask(session, "and now?")
    assert [message["role"] for message in rig.model.requests[-1].messages] == ["user"]
    assert "the first words" in rig.model.requests[-1].text
    assert "Summary of the conversation" not in rig.model.requests[-1].text


@pytest.mark.parametrize("answer", [FULL, Reply("")])
async def test_people_read_that_a_conversation_was_dropped_without_a_summary(
    make_rig: MakeRig, answer: Reply
) -> None:
    state = {"full": True}

    def script(request: Request) -> Reply:
        if asks_for_summary(request):
            state["full"] = False
            return answer
        return FULL if state["full"] else Reply("Done.")

    rig = make_rig(script=script)
    events = await rig.turn("the very words")
    assert end_of(events).outcome == "completed"
    (begun, (kind, text)) = notices(events)
    assert (begun[0], kind) == ("compaction", "compacted")
    assert "dropped without a summary" in text
    assert "the very words" in rig.model.requests[-1].text


async def test_goals_are_kept_over_three_compactions(make_rig: MakeRig) -> None:
    summaries: list[str] = []

    def script(request: Request) -> Reply:
        if not asks_for_summary(request):
            return Reply("Yes.")
        goal = f"goal {len(summaries) + 1}"
        summaries.append(goal)
        return Reply(f"<goals>\n- {goal}\n</goals>\n<summary>Summary {len(summaries)}.</summary>")

    rig = make_rig(script=script)
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        for number in (1, 2, 3):
            await ask(session, f"word {number}")
            assert end_of(await ask(session, "/compact")).outcome == "completed"
        await ask(session, "go on")
    last = rig.model.requests[-1].text
    assert all(f"- goal {number}" in last for number in (1, 2, 3))
    assert all(f"word {number}" in last for number in (1, 2, 3))
    assert "Summary 3." in last
    assert "Summary 1." not in last


async def test_a_compaction_that_a_person_wants_keeps_everything_without_a_summary(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Yes."), Reply(""), Reply("Yes."))
    async with rig.engine() as engine, engine.open(rig.brief()) as session:
        await ask(session, "the first words")
        events = await ask(session, "/compact")
        assert [kind for kind, _ in notices(events)] == ["compaction", "compaction_failed"]
        await ask(session, "go on")
    assert len(rig.model.requests[-1].messages) == 3
