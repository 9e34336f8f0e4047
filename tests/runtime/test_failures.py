"""What becomes of a turn that failed: tried again, parked until a limit resets, set aside, or told."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.puppet import Play, PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, open_rig

from pilothouse.core.event import Notice
from pilothouse.core.ids import EngineId
from pilothouse.runtime.ending import JITTER_S
from pilothouse.runtime.settings import Settings, backoff_s
from pilothouse.testing.clock import FakeClock


def failing(
    kind: str, *, times: int = 1, began: bool = False, after_s: float | None = None, clock: FakeClock
) -> list[Play]:
    """Plays that fail `times` times and then echo."""

    async def fail(strings: Strings) -> None:
        await strings.start()
        if began:
            await strings.tool()
            await strings.tool_done()
        retry_at = None if after_s is None else clock.now() + after_s
        await strings.fail(kind, "The limit is reached.", retry_at)

    return [*[fail] * times, echo]


def test_backoff_doubles_up_to_its_cap() -> None:
    settings = Settings(EngineId("e"), "/", retry_first_s=2.0, retry_cap_s=60.0)
    assert [backoff_s(settings, attempt) for attempt in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]
    assert backoff_s(settings, 5000) == 60


async def test_a_broken_line_to_the_vendor_is_tried_again_later_and_in_silence(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("transport", times=2, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, retry_first_s=30, retry_cap_s=50) as rig:
        await rig.channel.say("hello")
        parked = await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        assert parked[0].retry_at == clock.now() + 30
        await clock.advance(29)
        rig.poke()
        assert len(engine.turns) == 1
        await clock.advance(1)
        rig.poke()
        second = await rig.until(
            lambda tx: [t for t in tx.turns.of(MAIN, statuses=("parked",)) if t.attempts == 2]
        )
        assert second[0].retry_at == clock.now() + 50, "the cap"
        await clock.advance(50)
        rig.poke()
        await rig.until_said("you said: hello")
        assert [strings.prompt.text for strings in engine.turns] == ["hello"] * 3
        assert len(rig.said()) == 1


async def test_a_turn_that_had_begun_is_not_tried_again_by_itself(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("transport", began=True, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.until_said("Failed: The limit is reached.")
        assert len(engine.turns) == 1


async def test_a_limit_with_a_known_reset_parks_the_turn_which_goes_on_by_itself(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("quota", began=True, after_s=3600, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock) as rig:
        await rig.channel.say("hello")
        said = await rig.until_said("The limit is reached.")
        assert "goes on by itself" in said
        assert "/stop" in said
        (turn,) = await rig.turns()
        assert turn.status == "parked"
        assert turn.retry_at is not None
        assert 3600 <= turn.retry_at - clock.now() < 3600 + JITTER_S
        receipt = await rig.channel.say("are you there?")
        assert "waits behind it" in receipt.text
        await clock.advance(3599)
        rig.poke()
        assert len(engine.turns) == 1
        await clock.advance(JITTER_S + 1)
        rig.poke()
        await rig.until_said("you said: Continue.")
        await rig.until_said("you said: are you there?")
        assert [s.prompt.text for s in engine.turns[1:]] == ["Continue.", "are you there?"]


async def test_what_had_not_begun_is_said_again_from_the_start_after_a_limit(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("rate_limit", after_s=60, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        await clock.advance(60 + JITTER_S)
        rig.poke()
        await rig.until_said("you said: hello")


async def test_parked_turns_do_not_all_wake_at_once(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("quota", times=12, after_s=3600, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, max_turns_at_once=12) as rig:
        for number in range(12):
            await rig.channel.say("hello", f"room-{number}")
        parked = await rig.until(lambda tx: len(rows := tx.turns.of(statuses=("parked",))) == 12 and rows)
        assert len({turn.retry_at for turn in parked}) > 3


async def test_a_reset_beyond_the_calendar_or_in_the_past_is_not_believed(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(
        *failing("quota", after_s=1e13, clock=clock)[:1], *failing("quota", after_s=-5, clock=clock)
    )
    async with open_rig(tmp_path, engine, clock=clock) as rig:
        await rig.channel.say("one")
        await rig.until_ended(1)
        await rig.channel.say("two")
        await rig.until_ended(2)
        await rig.channel.say("three")
        await rig.until_said("you said: three")
        assert [turn.status for turn in await rig.turns()] == ["failed", "failed", "done"]


async def test_a_message_that_kills_its_turn_again_and_again_is_set_aside_and_the_next_one_runs(
    tmp_path: Path,
) -> None:
    async def crash(strings: Strings) -> None:
        if "poison" in strings.prompt.text:
            raise RuntimeError("dead")
        await echo(strings)

    engine = PuppetEngine(crash)
    async with open_rig(tmp_path, engine, max_attempts=3, busy="queue") as rig:
        receipts = [await rig.channel.say("poison"), await rig.channel.say("water")]
        assert "tried 3 times" in await rig.until_said("set aside")
        await rig.until_said("you said: water")
        await rig.until_idle()
        assert [(await rig.inbox_row(receipt)).status for receipt in receipts] == ["failed", "done"]
        assert len(engine.turns) == 4


async def test_a_session_that_cannot_be_resumed_twice_is_given_up_and_a_new_one_begins(
    tmp_path: Path,
) -> None:
    async def stale(strings: Strings) -> None:
        await strings.start()
        await strings.fail("stale_session", "The session is gone.")

    engine = PuppetEngine(echo, stale, stale, echo)
    async with open_rig(tmp_path, engine) as rig:
        for number, text in enumerate(("one", "two", "three", "four"), 1):
            await rig.channel.say(text)
            await rig.until_ended(number)
        one, two, three, four = await rig.turns()
        assert one.session_id == two.session_id == three.session_id != four.session_id
        assert "starts a new one" not in (two.failure.text if two.failure else "")
        assert "starts a new one" in (three.failure.text if three.failure else "")
        assert [brief.resume is None for brief in engine.briefs] == [True, False, False, True]


async def test_one_good_turn_forgives_a_stale_session(tmp_path: Path) -> None:
    async def stale(strings: Strings) -> None:
        await strings.start()
        await strings.fail("stale_session", "The session is gone.")

    async with open_rig(tmp_path, PuppetEngine(echo, stale, echo, stale, echo)) as rig:
        for number in range(1, 6):
            await rig.channel.say(str(number))
            await rig.until_ended(number)
        assert len({turn.session_id for turn in await rig.turns()}) == 1


async def test_a_retry_shows_in_the_log_and_not_in_the_chat(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("overloaded", clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, retry_first_s=5) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        logged = await rig.store.read(lambda tx: tx.events.of_turn(turn.id))
        assert [e.event.kind for e in logged if isinstance(e.event, Notice)] == ["parked"]
        assert rig.said() == []
