"""Law 9: no model is called past its budget. A real gateway, with turns that cost what the test says."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.runtime.puppet import Play, PuppetEngine, Strings
from tests.runtime.rig import MAIN, MEMBER, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.budget import Caps, CapStatus, Scope, day_of
from pilothouse.core.event import TurnEnded, UsageChanged
from pilothouse.core.ids import ConversationId
from pilothouse.core.outcome import Failure, Usage
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.settle import apply_answer
from pilothouse.runtime.budget.hold import BUDGET
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.ports import new_id
from pilothouse.stores.sqlite import STORE
from pilothouse.testing.clock import FakeClock

ALL = Scope("all")


def costing(usd: float | None, gate: anyio.Event | None = None) -> Play:
    async def play(strings: Strings) -> None:
        await strings.start(strings.prompt.text)
        if gate is not None:
            await gate.wait()
        await strings.end(f"did {strings.prompt.text}", cost_usd=usd)

    return play


async def cap_status(rig: Rig, scope: Scope = ALL, cap: float = 0.0) -> CapStatus:
    day = day_of(rig.ports.clock.now(), rig.ports.settings().zone)
    return await rig.store.read(lambda tx: tx.spending.cap_status(scope, day, cap))


async def budget_ask(rig: Rig) -> Ask:
    rows: list[AskRow] = await rig.until(lambda tx: tx.asks.open_about(BUDGET))
    await rig.until_said(rows[-1].ask.title)
    return rows[-1].ask


async def parked(rig: Rig, count: int = 1) -> list[Turn]:
    return await rig.until(
        lambda tx: (len(turns := tx.turns.of(statuses=("parked",))) >= count and turns) or None
    )


async def test_law_9_the_cap_holds_under_twenty_turns_at_once(tmp_path: Path) -> None:
    gate = anyio.Event()
    engine = PuppetEngine(costing(0.1, gate))
    async with open_rig(tmp_path, engine, caps=Caps(all_usd=1.0, least_usd=0.1), max_turns_at_once=20) as rig:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(rig.channel.say, f"job {number}", f"room{number}")
        await parked(rig, 10)
        await rig.until_true(lambda: len(engine.turns) == 10)
        now = await cap_status(rig, cap=1.0)
        assert now.reserved_usd == pytest.approx(1.0), "ten run, and no eleventh"
        assert len(await rig.store.read(lambda tx: tx.asks.open_about(BUDGET))) == 1, (
            "one ask for all of them"
        )
        gate.set()
        await rig.until(lambda tx: len(tx.turns.of(statuses=("done",))) == 10)
        now = await cap_status(rig, cap=1.0)
        assert (now.spent_usd, now.reserved_usd) == (pytest.approx(1.0), 0.0)
        assert len(engine.turns) == 10
        ask = await budget_ask(rig)
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_true(
            lambda: len(engine.turns) == 12
        )  # a quarter of the cap more: two turns and a half
        await rig.until(lambda tx: len(tx.turns.of(statuses=("done",))) == 12)
        now = await cap_status(rig, cap=1.0)
        assert now.spent_usd <= now.limit_usd == 1.25
        assert len(await parked(rig, 8)) == 8
        assert (await budget_ask(rig)).id != ask.id


@pytest.mark.parametrize("cost", [0.5, 0.1])
async def test_turns_that_cost_more_than_they_reserved_pass_the_cap_by_no_more_than_that(
    tmp_path: Path, cost: float
) -> None:
    async with open_rig(tmp_path, PuppetEngine(costing(cost)), caps=Caps(all_usd=1.0, least_usd=0.1)) as rig:
        for number in range(12):
            await rig.channel.say(f"job {number}", f"room{number}")
            await rig.until(
                lambda tx, n=number: (
                    (turns := tx.turns.of(ConversationId(f"memory:room{n}")))
                    and turns[0].status in ("done", "parked")
                )
            )
        now = await cap_status(rig, cap=1.0)
        assert now.spent_usd <= 1.0 + cost


async def test_a_yes_raises_the_cap_for_the_day_and_the_held_turn_goes_on(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(costing(0.4)), caps=Caps(conversation_usd=0.5, least_usd=0.4, more_usd=1.0)
    ) as rig:
        await rig.channel.say("one")
        await rig.until_ended(1)
        receipt = await rig.channel.say("two")
        ask = await budget_ask(rig)
        assert ask.payload["more_usd"] == 1.0 and ask.payload["budget"] == "conversation"
        assert "An owner is asked for $1.00 more" in await rig.until_said("Held: $0.10 of $0.50 are left")
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted, "it is an owner's money"
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said("did two")
        await rig.until_idle()
        assert (await rig.inbox_row(receipt)).status == "done"
        assert await rig.audited("budget.") == ["budget.alerted", "budget.held", "budget.raised"]
        assert (await cap_status(rig, Scope("conversation", MAIN), 0.5)).raised_usd == 1.0
        turns = await rig.turns()
        assert [turn.attempts for turn in turns] == [1, 1], "being held is no attempt"


@pytest.mark.parametrize("verdict", ["deny", "expiry"])
async def test_a_no_or_nobodys_answer_ends_every_held_turn_with_a_word(tmp_path: Path, verdict: Any) -> None:
    clock = FakeClock()
    async with open_rig(
        tmp_path,
        PuppetEngine(costing(0.1)),
        clock=clock,
        caps=Caps(workspace_usd=0.1, least_usd=0.2),
        ask_timeout_s=60,
    ) as rig:
        receipts = [await rig.channel.say(f"job {n}", f"room{n}") for n in range(2)]
        await parked(rig, 2)
        ask = await budget_ask(rig)
        if verdict == "deny":
            assert (await rig.channel.answer(ask, "deny", text="too dear")).accepted
        else:
            await clock.advance(61)
        rig.poke()
        for room in ("room0", "room1"):
            (turn,) = await rig.until_ended(1, ConversationId(f"memory:{room}"))
            assert turn.status == "failed" and turn.failure is not None and turn.failure.kind == "budget"
        for receipt in receipts:
            assert (await rig.inbox_row(receipt)).status == "failed"
        words = "(too dear)" if verdict == "deny" else "no owner allowed more in time"
        await rig.until_true(
            lambda: all(any(words in said for said in rig.said(f"room{n}")) for n in range(2))
        )
        assert rig.engine.turns == []
        assert (await cap_status(rig)).reserved_usd == 0


async def test_a_no_from_another_process_ends_the_message_too(tmp_path: Path) -> None:
    """The other process does not hold the inbox row: whoever holds it ends it."""
    async with open_rig(tmp_path, PuppetEngine(costing(0.1)), caps=Caps(all_usd=0.1, least_usd=0.2)) as rig:
        receipt = await rig.channel.say("go")
        ask = await budget_ask(rig)
        async with STORE.open(STORE.config(path=str(tmp_path / "pilothouse.db"))) as other:

            def refuse(tx: Tx) -> None:
                row = tx.asks.get(ask.id)
                assert row is not None
                apply_answer(tx, new_id, TOPICS, row, Decision("deny", by=PERSON.id), 1.0)

            await other.write(refuse)
        (turn,) = await rig.until_ended()
        assert turn.status == "failed"
        assert (await rig.inbox_row(receipt)).status == "failed"


async def test_a_held_turn_goes_on_by_itself_when_the_next_day_begins(tmp_path: Path) -> None:
    clock = FakeClock()
    clock.jump(86_400 - clock.now() % 86_400 - 120)
    async with open_rig(
        tmp_path, PuppetEngine(costing(0.4)), clock=clock, caps=Caps(all_usd=0.5, least_usd=0.4)
    ) as rig:
        await rig.channel.say("one")
        await rig.until_ended(1)
        await rig.channel.say("two")
        ask = await budget_ask(rig)
        await clock.advance(121)
        rig.poke()
        await rig.until_said("did two")
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.state == "superseded"
        await rig.until_said("(nothing waits for it any more)")
        assert (await cap_status(rig)).spent_usd == pytest.approx(0.4), "yesterday's is yesterday's"


@pytest.mark.parametrize("caps", [Caps(), Caps(all_usd=1.0)], ids=["no cap", "cap"])
async def test_a_turn_across_midnight_counts_on_the_day_it_began(tmp_path: Path, caps: Caps) -> None:
    clock, gate = FakeClock(), anyio.Event()
    clock.jump(86_400 - clock.now() % 86_400 - 60)
    began = day_of(clock.now(), UTC)
    async with open_rig(tmp_path, PuppetEngine(costing(0.4, gate)), clock=clock, caps=caps) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await clock.advance(120)
        gate.set()
        await rig.until_ended()
        (row,) = await rig.store.read(lambda tx: tx.spending.of())
        assert (row.day, row.cost_usd) == (began, pytest.approx(0.4))
        assert day_of(clock.now(), UTC) != began


async def test_a_held_turn_can_be_stopped_and_then_nobody_is_asked(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(costing(0.1)), caps=Caps(all_usd=0.1, least_usd=0.2)) as rig:
        receipt = await rig.channel.say("go")
        ask = await budget_ask(rig)
        await rig.channel.say("/status")
        await rig.until_said("held: it does not fit into the day's budget")
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.state == "superseded"
        assert (await rig.inbox_row(receipt)).status == "done"
        line = await rig.until_said("(nothing waits for it any more)")
        await rig.until_idle()
        title = line.removeprefix("No longer open: ").partition(" (")[0]
        assert [text for text in rig.said() if title in text] == [line], "no buttons stay behind"


async def test_a_held_turn_and_its_ask_outlive_a_crash(tmp_path: Path) -> None:
    caps = Caps(all_usd=0.1, least_usd=0.2)
    async with open_rig(tmp_path, PuppetEngine(costing(0.1)), caps=caps) as rig:
        receipt = await rig.channel.say("go")
        ask = await budget_ask(rig)
        rig.crash()
    async with open_rig(
        tmp_path,
        PuppetEngine(costing(0.1)),
        name="second",
        caps=caps,
        alive=lambda info: info.name == "second",
    ) as rig:
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said("did go")
        await rig.until_idle()
        assert (await rig.inbox_row(receipt)).status == "done"


async def test_alerts_come_once_each_at_half_at_eighty_and_at_the_whole(tmp_path: Path) -> None:
    async with open_rig(
        tmp_path, PuppetEngine(costing(0.2)), caps=Caps(conversation_usd=2.0, least_usd=0.2)
    ) as rig:
        for number in range(10):
            await rig.channel.say(f"job {number}")
            await rig.until_ended(number + 1)
        await rig.until_idle()
        told = [said for said in rig.said() if "% of today's budget" in said]
        assert [said.split()[0] for said in told] == ["50", "80", "100"]
        assert "$1.00 of $2.00" in told[0] and "$2.00 of $2.00" in told[2]


async def test_what_concerns_everybody_is_told_to_the_owner_too(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(costing(0.1), costing(0.6)), caps=Caps(all_usd=1.0)) as rig:
        await rig.channel.say("hello", "owner-home")
        await rig.until_ended(1, ConversationId("memory:owner-home"))
        await rig.channel.say("go", "room", author=MEMBER)
        await rig.until_true(lambda: any("50 % of today's budget" in said for said in rig.said("owner-home")))
        assert any("50 % of today's budget" in said for said in rig.said("room"))


async def test_a_turn_that_does_not_tell_counts_with_its_reservation_and_is_never_said_to_have_cost_it(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(costing(None)), caps=Caps(all_usd=0.25, least_usd=0.1)) as rig:
        for number in range(2):
            await rig.channel.say(f"job {number}")
            await rig.until_ended(number + 1)
        await rig.channel.say("one more")
        await parked(rig)
        now = await cap_status(rig)
        assert (now.spent_usd, now.assumed_usd) == (0.0, pytest.approx(0.2))
        (row,) = await rig.store.read(lambda tx: tx.spending.of())
        assert (row.turns, row.untold, row.cost_usd) == (2, 2, 0.0)
        await rig.channel.say("/cost")
        assert "2 without a price" in await rig.until_said("$0.00 in 2 turns")


async def test_a_turn_whose_engine_never_opened_costs_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, caps=Caps(all_usd=1.0), default_workspace=str(tmp_path / "gone")) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        now = await cap_status(rig)
        assert (now.used_usd, now.reserved_usd) == (0.0, 0.0)


async def test_a_lost_turn_settles_with_the_last_cost_that_its_engine_told(tmp_path: Path) -> None:
    async def dies(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await strings.emit(UsageChanged(Usage(cost_usd=0.2)), UsageChanged(Usage(cost_usd=0.7)))
        await anyio.sleep_forever()

    caps = Caps(all_usd=1.0, least_usd=0.05)
    async with open_rig(tmp_path, PuppetEngine(dies), caps=caps) as rig:
        await rig.channel.say("go")
        await rig.until(
            lambda tx: ((s := tx.spending.of()) == [] and _reserved(tx) == pytest.approx(0.7)) or s
        )
        rig.crash()
    async with open_rig(
        tmp_path,
        PuppetEngine(costing(0.1)),
        name="second",
        caps=caps,
        alive=lambda info: info.name == "second",
    ) as rig:
        await rig.until_ended()
        now = await cap_status(rig)
        assert (now.spent_usd, now.assumed_usd, now.reserved_usd) == (pytest.approx(0.7), 0.0, 0.0)


def _reserved(tx: Tx) -> float:
    live = tx.turns.live_in(MAIN)
    taken = tx.spending.get(live.id) if live else None
    return taken.amount_usd if taken else 0.0


async def test_a_turn_that_tells_what_it_spends_is_stopped_when_nothing_is_left(tmp_path: Path) -> None:
    async def spends(strings: Strings) -> None:
        await strings.start()
        await strings.emit(UsageChanged(Usage(cost_usd=0.2)))
        await strings.emit(UsageChanged(Usage(cost_usd=0.9)))
        await strings.interrupted.wait()
        await strings.emit(TurnEnded("cancelled", usage=Usage(cost_usd=0.9)))

    async with open_rig(tmp_path, PuppetEngine(spends), caps=Caps(all_usd=0.5, least_usd=0.1)) as rig:
        await rig.channel.say("go")
        (turn,) = await rig.until_ended()
        assert turn.status == "failed" and turn.failure is not None and turn.failure.kind == "budget"
        await rig.until_said("It was stopped")
        assert (await cap_status(rig)).spent_usd == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("at_once", "told"),
    [
        (1, [0.9, 0.6]),  # it has all that is left
        (3, [0.45, 0.3]),  # half is for a session beside it
        (8, [0.3, 0.3]),  # and for each of seven others as much as it reserves
    ],
)
async def test_an_engine_is_told_what_is_left_of_which_others_keep_their_part(
    tmp_path: Path, at_once: int, told: list[float]
) -> None:
    caps = Caps(all_usd=1.0, conversation_usd=0.9, least_usd=0.1)
    engine = PuppetEngine(costing(0.3))
    async with open_rig(tmp_path, engine, caps=caps, max_turns_at_once=at_once) as rig:
        for number in range(2):
            await rig.channel.say(f"job {number}")
            await rig.until_ended(number + 1)
        assert [strings.brief.budget_usd for strings in engine.turns] == pytest.approx(told)


async def test_what_engines_at_once_may_spend_is_no_more_than_the_cap(tmp_path: Path) -> None:
    """Each would cost five times its reservation, and keeps to what it was told."""
    gate = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await gate.wait()
        await strings.end("did it", cost_usd=min(0.5, strings.brief.budget_usd or 0.5))

    engine = PuppetEngine(play)
    async with open_rig(tmp_path, engine, caps=Caps(all_usd=1.0, least_usd=0.1), max_turns_at_once=20) as rig:
        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(rig.channel.say, f"job {number}", f"room{number}")
        await parked(rig, 10)
        await rig.until_true(lambda: len(engine.turns) == 10)
        assert sum(turn.brief.budget_usd or 1.0 for turn in engine.turns) == pytest.approx(1.0)
        gate.set()
        await rig.until(lambda tx: len(tx.turns.of(statuses=("done",))) == 10)
        assert (await cap_status(rig, cap=1.0)).spent_usd == pytest.approx(1.0)


async def test_a_share_is_taken_from_what_others_may_spend(tmp_path: Path) -> None:
    gate = anyio.Event()
    engine = PuppetEngine(costing(0.1, gate))
    async with open_rig(tmp_path, engine, caps=Caps(all_usd=1.0, least_usd=0.1), max_turns_at_once=3) as rig:
        for number in range(3):
            await rig.channel.say(f"job {number}", f"room{number}")
            await rig.until_true(lambda n=number: len(engine.turns) == n + 1)
        told = [turn.brief.budget_usd for turn in engine.turns]
        assert told == [0.5, 0.25, 0.25], "half, half of the rest, and all that is left"
        gate.set()
        await rig.until(lambda tx: len(tx.turns.of(statuses=("done",))) == 3)


async def test_a_turn_reserves_what_its_session_cost_on_average(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with open_rig(
        tmp_path,
        PuppetEngine(costing(0.2), costing(0.4), costing(0.1, gate)),
        caps=Caps(all_usd=10.0, least_usd=0.05),
    ) as rig:
        for number in range(2):
            await rig.channel.say(f"job {number}")
            await rig.until_ended(number + 1)
        await rig.channel.say("three")
        await rig.until_live()
        assert await rig.store.read(_reserved) == pytest.approx(0.3)
        gate.set()
        await rig.until_ended(3)


async def test_without_a_cap_nothing_is_reserved_and_money_is_still_counted(tmp_path: Path) -> None:
    gate = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(costing(0.25, gate))) as rig:
        await rig.channel.say("go")
        live = await rig.until_live()
        assert await rig.store.read(lambda tx: tx.spending.get(live.id)) is None
        assert rig.engine.turns == [] or rig.engine.turns[0].brief.budget_usd is None
        gate.set()
        await rig.until_ended()
        (row,) = await rig.store.read(lambda tx: tx.spending.of())
        assert (row.cause, row.cost_usd, row.turns) == ("message", 0.25, 1)
        assert await rig.store.read(lambda tx: tx.asks.open_about(BUDGET)) == []


async def test_every_attempt_of_a_turn_that_was_parked_is_counted(tmp_path: Path) -> None:
    async def limited(strings: Strings) -> None:
        await strings.start()
        failure = Failure("transport", "The line is down.")
        await strings.emit(TurnEnded("failed", failure=failure, usage=Usage(cost_usd=0.1)))

    async with open_rig(tmp_path, PuppetEngine(limited, costing(0.2)), caps=Caps(all_usd=5.0)) as rig:
        await rig.channel.say("go")
        await rig.until_said("did go")
        (row,) = await rig.store.read(lambda tx: tx.spending.of())
        assert (row.turns, row.cost_usd) == (1, pytest.approx(0.3))


async def test_cost_tells_this_session_this_day_and_the_caps(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(costing(0.25)), caps=Caps(all_usd=2.0)) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        await rig.channel.say("/cost")
        text = await rig.until_said("This session")
        assert "message" in text and "$0.25 in 1 turn\n" in text
        assert "Daily cap (all)" in text and "$0.25 of $2.00" in text
