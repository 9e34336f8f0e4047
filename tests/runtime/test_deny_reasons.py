"""“Deny, and say why”: the no is final at once, the engine hears it with the reason, or without after a minute."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.puppet import Play, PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MAIN, MEMBER, Rig, only_alive, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, AskRow
from pilothouse.core.event import AskChanged, Asked
from pilothouse.core.ids import AskId
from pilothouse.testing.clock import FakeClock

MAKE = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})


def asks() -> Play:
    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(MAKE)
        await strings.end(f"told: {decision.verdict} {decision.text}")

    return play


async def stopping(strings: Strings) -> None:
    await strings.start()
    await strings.ask(MAKE)
    await strings.interrupted.wait()


async def deny(rig: Rig) -> tuple[Ask, AskRow]:
    """The denied ask, and the question for its reason."""
    ask = await rig.until_asked("Run make?")
    answered = await rig.channel.answer(ask, "deny", reason_wanted=True)
    assert answered.accepted
    (row,) = await rig.until(lambda tx: tx.asks.open_about("reason"))
    assert row.about == ask.id
    await rig.until_said("Why?")
    return ask, row


async def test_the_reason_is_asked_of_the_denier_and_the_engine_goes_on_with_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(), echo)) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask, question = await deny(rig)
        assert (await rig.until_live()).status == "waiting", "it is held until the reason came"
        assert "Already answered" in (await rig.channel.answer(ask, "allow", author=MEMBER)).text
        assert (await rig.channel.say("no reason of mine", author=ADMIN)).text != "Got it."
        assert not (await rig.channel.answer(question.ask, "answer", text="x", author=ADMIN)).accepted
        assert (await rig.channel.say("use ninja")).text == "Got it."
        await rig.until_said("told: deny use ninja")
        await rig.until_said("Denied by Person: use ninja")
        turn = (await rig.turns())[0]
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        assert [event for event in events if isinstance(event, Asked | AskChanged)] == [
            Asked(ask),
            AskChanged(ask.id, "answered", PERSON.id, "denied"),
            Asked(question.ask),
            AskChanged(question.ask.id, "answered", PERSON.id, "use ninja"),
        ]


async def test_without_a_reason_it_is_a_plain_no_after_a_minute(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(stopping), clock=clock) as rig:
        await rig.channel.say("go")
        ask, _ = await deny(rig)
        await clock.advance(59)
        rig.poke()
        assert (await rig.until_live()).status == "waiting"
        await clock.advance(2)
        rig.poke()
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await rig.until_said("is denied and the work stops")
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.decision is not None
        assert (row.decision.verdict, row.decision.text) == ("deny", "")


async def test_a_no_that_brings_its_reason_holds_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks())) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await rig.channel.answer(ask, "deny", text="use ninja", reason_wanted=True)
        await rig.until_said("told: deny use ninja")
        assert await rig.store.read(lambda tx: tx.asks.newest()) == []


async def test_a_crash_while_the_reason_is_awaited_loses_neither_the_no_nor_the_question(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks()), name="first") as rig:
        await rig.channel.say("go")
        ask, _ = await deny(rig)
        rig.crash()
    async with open_rig(tmp_path, PuppetEngine(asks()), name="second", alive=only_alive("second")) as rig:
        assert "Why?" in await rig.until_said("still open")
        assert not (await rig.channel.answer(ask, "allow")).accepted
        assert (await rig.channel.say("use ninja")).text == "Got it."
        await rig.until_said("told: deny use ninja")
        first, second = await rig.until_ended(2)
        assert (first.status, second.cause, second.status) == ("failed", "answer", "done")


async def test_a_crash_and_no_reason_is_a_no_and_starts_nothing(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(asks()), name="first", clock=clock) as rig:
        await rig.channel.say("go")
        await deny(rig)
        rig.crash()
    async with open_rig(
        tmp_path, PuppetEngine(asks()), name="second", alive=only_alive("second"), clock=clock
    ) as rig:
        await clock.advance(61)
        rig.poke()
        await rig.until_said("is denied and the work stops")
        await rig.until_idle()
        assert rig.engine.turns == []


async def test_a_stop_while_the_reason_is_awaited_ends_both(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(stopping)) as rig:
        await rig.channel.say("go")
        _, question = await deny(rig)
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        row = await rig.store.read(lambda tx: tx.asks.get(question.ask.id))
        assert row is not None and row.state == "withdrawn"
        await rig.until_said("(its turn ended)")
        assert await rig.store.read(lambda tx: tx.asks.open_in(MAIN)) == []
