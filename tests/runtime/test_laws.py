"""The laws of the house, each under its number. What they need in detail is tested beside them."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, deaf, echo, until_interrupted
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.errors import SessionBusy
from pilothouse.core.event import (
    EngineEvent,
    SessionStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    well_formed,
)
from pilothouse.core.ids import AskId, CallId, ConversationId, TurnId
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn


async def test_law_1_durable_before_acknowledged(tmp_path: Path) -> None:
    """The gateway dies the moment it has said "queued"; the message is there all the same."""
    async with open_rig(tmp_path, name="first", max_turns_at_once=0) as rig:
        receipt = await rig.channel.say("hello")
        assert receipt.state == "queued"
        rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second")) as rig:
        await rig.until_said("you said: hello")
        await rig.until_idle()
        assert (await rig.inbox_row(receipt)).status == "done"


async def test_law_2_one_turn_at_a_time_per_session(tmp_path: Path) -> None:
    """Also where two conversations share the session."""
    running: set[str] = set()
    most = 0

    async def play(strings: Strings) -> None:
        nonlocal most
        await strings.start("shared")
        running.add(strings.prompt.text)
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
            most = max(most, len(running))
        running.discard(strings.prompt.text)
        await strings.end("ok")

    async with open_rig(tmp_path, PuppetEngine(play), busy="queue") as rig:
        await rig.channel.say("first")
        (turn,) = await rig.until_ended()
        await rig.channel.say("/resume shared", "other")
        for number in range(3):
            await rig.channel.say(f"main {number}")
            await rig.channel.say(f"other {number}", "other")
        await rig.until_ended(4)
        await rig.until_ended(3, ConversationId("memory:other"))
        assert most == 1
        assert {t.session_id for t in await rig.store.read(lambda tx: tx.turns.of())} == {turn.session_id}


async def test_law_2_is_the_stores_whatever_code_tries_to_start_a_second_turn(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await rig.channel.say("first")
        live = await rig.until_live()
        second = Turn(
            TurnId("t2"), live.session_id, MAIN, live.engine, "running", "message", Prompt("x"), 1.0
        )
        with pytest.raises(SessionBusy):
            await rig.store.write(lambda tx: tx.turns.add(second))


async def test_law_3_one_transaction_ends_a_turn(tmp_path: Path) -> None:
    """At no moment that anybody can see is there an ended turn without its outbox row, inbox rows and token."""
    async with open_rig(tmp_path) as rig:
        half_ended: list[object] = []

        def look(tx: Tx) -> bool:
            for turn in tx.turns.of(statuses=("done", "failed", "cancelled")):
                session = tx.sessions.get(turn.session_id)
                whole = (
                    tx.outbox.by_key(f"end:{turn.id}") is not None
                    and all(row.status == "done" for row in tx.inbox.of_turn(turn.id))
                    and session is not None
                    and session.resume is not None
                    and isinstance(tx.events.of_turn(turn.id)[-1].event, TurnEnded)
                )
                if not whole:
                    half_ended.append(turn)
            return len(tx.turns.of(statuses=("done",))) == 20

        for number in range(20):
            await rig.channel.say("hello", f"room-{number}")
        await rig.until(look)
        assert half_ended == []


async def test_law_4_every_message_has_one_terminal_state_and_one_visible_outcome(tmp_path: Path) -> None:
    async def fail(strings: Strings) -> None:
        await strings.start()
        await strings.fail("auth", "You are not logged in.")

    async def silent(strings: Strings) -> None:
        await strings.start()
        await strings.end()

    engine = PuppetEngine(echo, fail, silent, echo)
    async with open_rig(tmp_path, engine, busy="queue") as rig:
        receipts = [await rig.channel.say(text) for text in ("answered", "failing", "wordless", "last")]
        await rig.until_ended(4)
        await rig.until_idle()
        states = [(await rig.inbox_row(receipt)).status for receipt in receipts]
        assert states == ["done", "failed", "done", "done"]
        assert len(rig.said()) == 4
        assert "sent no text" in rig.said()[2]


@pytest.mark.parametrize(
    "mess",
    [
        [],
        [TurnEnded("completed", "no start")],
        [TextDelta("b", "text without a start")],
        [SessionStarted(), SessionStarted(), TurnEnded("completed"), TextDelta("b", "after the end")],
        [SessionStarted(), TurnEnded("failed")],
    ],
    ids=["nothing", "no start", "only text", "after the end", "no reason"],
)
async def test_law_5_every_stream_is_a_start_steps_and_one_end(
    tmp_path: Path, mess: list[EngineEvent]
) -> None:
    async def play(strings: Strings) -> None:
        await strings.tool("never-closed")
        await strings.emit(*mess)

    async with open_rig(tmp_path, PuppetEngine(play), max_attempts=1) as rig:
        await rig.channel.say("go")
        (turn,) = await rig.until_ended()
        await rig.until_idle()
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        assert list(well_formed(events)) == events
        assert isinstance(events[0], SessionStarted)
        assert isinstance(events[-1], TurnEnded)
        assert any(isinstance(event, ToolStarted) for event in events)
        assert len(rig.said()) == 1


@pytest.mark.parametrize("crash", [True, False], ids=["crash", "cut"])
async def test_law_5_holds_for_a_turn_whose_worker_is_gone(tmp_path: Path, crash: bool) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.tool("closed")
        await strings.tool_done("closed")
        await strings.tool("never-closed")
        await anyio.sleep_forever()

    async with open_rig(tmp_path, PuppetEngine(play), name="first", grace_s=0.01) as rig:
        await rig.channel.say("go")
        await rig.until(
            lambda tx: sum(isinstance(e.event, ToolStarted) for e in tx.events.after(MAIN, 0)) == 2
        )
        if crash:
            rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second")) as rig:
        (turn,) = await rig.until_ended()
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        assert list(well_formed(events)) == events
        assert events[-2] == ToolFinished(CallId("never-closed"), ok=False)


async def test_law_6_every_ask_is_a_row_and_an_answer_is_bound_to_it(tmp_path: Path) -> None:
    """Another id or another hash does not answer it."""

    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))
        await strings.end(f"told: {decision.verdict}")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None
        assert row.ask == ask
        desk = rig.gateway.desk
        allow = Decision("allow")
        assert not (await desk.answer(ask.id, "not the hash", allow, PERSON)).accepted
        assert not (await desk.answer(AskId("other"), ask.payload_hash, allow, PERSON)).accepted
        assert (await desk.answer(ask.id, ask.payload_hash, allow, PERSON)).accepted
        await rig.until_said("told: allow")


async def test_law_8_nothing_of_ours_outlives_us(tmp_path: Path) -> None:
    """No session, no lease, no task and no claim is left, whatever was going on."""

    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))

    engine = PuppetEngine(ask, deaf, echo)
    before = len(_tasks())
    async with open_rig(tmp_path, engine, grace_s=0.01) as rig:
        await rig.channel.say("one")
        await rig.until_asked()
        await rig.channel.say("two", "second")
        await rig.until_true(lambda: len(engine.turns) == 2)
        await rig.channel.say("three", "third")
        await rig.until_said("you said: three")
    assert engine.open_sessions == 0
    assert len(_tasks()) == before
    async with open_rig(tmp_path, name="looker", max_turns_at_once=0) as rig:
        await _nothing_claimed(rig)


async def _nothing_claimed(rig: Rig) -> None:
    def unit(tx: Tx) -> object:
        return tx.turns.of(statuses=("running", "waiting")), [n.info.name for n in tx.nodes.list()]

    assert await rig.store.read(unit) == ([], ["looker"])


def _tasks() -> set[object]:
    gc.collect()
    return {task for task in asyncio.all_tasks() if not task.done()}
