"""What becomes of a turn that failed: tried again, parked until a limit resets, set aside, or told."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.puppet import PUPPET, Play, PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, MEMBER, open_rig

from pilothouse.core.event import Notice, SessionStarted
from pilothouse.core.ids import ConversationId, EngineId, SessionId, TurnId
from pilothouse.core.turn import Prompt, Turn
from pilothouse.runtime.settings import Settings, backoff_s
from pilothouse.runtime.turns.finish import JITTER_S
from pilothouse.runtime.turns.recap import MAX_CHARS, recap_of, with_recap
from pilothouse.testing.clock import FakeClock

RESET_S = 300
"""Longer than any pause of our own, and no longer than that: whoever watches a clock looks at each of its seconds."""


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


async def test_a_broken_line_to_the_vendor_is_tried_again_later_and_a_long_pause_is_told(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("transport", times=2, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, outage_pauses_s=(20, 50)) as rig:
        await rig.channel.say("hello")
        parked = await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        assert parked[0].retry_at == clock.now() + 20
        await clock.advance(19)
        rig.poke()
        assert len(engine.turns) == 1
        await clock.advance(1)
        rig.poke()
        second = await rig.until(
            lambda tx: [t for t in tx.turns.of(MAIN, statuses=("parked",)) if t.attempts == 2]
        )
        assert second[0].retry_at == clock.now() + 50
        await clock.advance(50)
        rig.poke()
        await rig.until_said("you said: hello")
        assert [strings.prompt.text for strings in engine.turns] == ["hello"] * 3
        told, _ = rig.said()
        assert told == "The limit is reached. I try again in 50 s. /stop drops it."


async def test_an_outage_is_given_up_in_the_end_and_can_be_retried_by_a_tap(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("overloaded", times=9, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, outage_pauses_s=(60, 60, 60), max_attempts=1) as rig:
        await rig.channel.say("hello")
        for attempt in range(1, 4):
            await rig.until(
                lambda tx, n=attempt: [t for t in tx.turns.of(MAIN, statuses=("parked",)) if t.attempts == n]
            )
            await clock.advance(60)
            rig.poke()
        said = await rig.until_said("gave up")
        assert (
            said
            == "Failed: The limit is reached. I gave up after 4 tries over 3 minutes. /retry tries again."
        )
        (turn,) = await rig.until_ended()
        assert rig.channel.sent[-1].parts[-1].data["buttons"] == [["Retry", f"/retry {turn.id}"]]


def test_the_pauses_of_an_outage_grow_for_more_than_half_an_hour() -> None:
    pauses = Settings(EngineId("e"), "/").outage_pauses_s
    assert sorted(pauses) == list(pauses)
    assert 30 * 60 < sum(pauses) < 60 * 60


LOG_IN = "Run `x login` on {machine}"


async def test_a_refused_login_is_never_tried_again_and_says_what_mends_it(tmp_path: Path) -> None:
    async def refused(strings: Strings) -> None:
        await strings.start()
        await strings.fail("auth", "The login has expired.", fix=LOG_IN)

    engine = PuppetEngine(refused)
    async with open_rig(tmp_path, engine, machine="attic") as rig:
        await rig.channel.say("hello")
        said = await rig.until_said("expired")
        assert said == "Failed: The login has expired. Run `x login` on attic, then send /retry."
        (turn,) = await rig.until_ended()
        assert (turn.attempts, len(engine.turns)) == (1, 1)
        assert rig.channel.sent[-1].parts[-1].data["buttons"] == [["Retry", f"/retry {turn.id}"]]
        ended = [fields for event, fields in rig.logged if event == "turn.ended"]
        assert [(one["failure"], one["why"], one["level"]) for one in ended] == [
            ("auth", "The login has expired.", "warning")
        ]


async def test_the_owner_is_told_once_per_outage_wherever_they_are(tmp_path: Path) -> None:
    async def refused(strings: Strings) -> None:
        await strings.start()
        await strings.fail("auth", "The login has expired.", fix=LOG_IN)

    async with open_rig(
        tmp_path, PuppetEngine(echo, refused, refused, echo, refused), machine="attic"
    ) as rig:
        await rig.channel.say("hello", "home")
        await rig.until_said("you said: hello")
        for number, room in enumerate(("a", "b", "c", "d")):
            await rig.channel.say(str(number), room, author=MEMBER)
            await rig.until_ended(1, ConversationId(f"memory:{room}"))
        await rig.until_idle()
        told = [text for text in rig.said("home") if text.startswith("The login has expired.")]
        assert (
            told
            == ["The login has expired. Run `x login` on attic. Until then, no turn of puppet can run."] * 2
        ), "once for the rooms a and b, and once for d, after c had worked"


async def test_what_no_time_mends_offers_no_retry(tmp_path: Path) -> None:
    async def refused(strings: Strings) -> None:
        await strings.start()
        await strings.fail("bad_request", "There is no such model.")

    async with open_rig(tmp_path, PuppetEngine(refused)) as rig:
        await rig.channel.say("hello")
        assert await rig.until_said("model") == "Failed: There is no such model."
        assert "buttons" not in rig.channel.sent[-1].parts[-1].data


async def test_a_new_session_is_told_to_wait_behind_what_is_tried_again(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("quota", after_s=RESET_S, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.until_said("continues by itself")
        await rig.channel.say("/new")
        await rig.until_said("An earlier message waits to run again, and goes first; /stop drops it.")


async def test_a_turn_that_had_begun_is_not_tried_again_by_itself(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("transport", began=True, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.until_said("Failed: The limit is reached.")
        assert len(engine.turns) == 1


async def test_a_limit_with_a_known_reset_parks_the_turn_which_goes_on_by_itself(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("quota", began=True, after_s=RESET_S, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock) as rig:
        await rig.channel.say("hello")
        said = await rig.until_said("The limit is reached.")
        assert "continues by itself" in said
        assert "/stop" in said
        (turn,) = await rig.turns()
        assert turn.status == "parked"
        assert turn.retry_at is not None
        assert RESET_S <= turn.retry_at - clock.now() < RESET_S + JITTER_S
        receipt = await rig.channel.say("are you there?")
        assert receipt.text.startswith("The limit is reached. An earlier message runs again at ")
        assert "UTC" not in said + receipt.text
        await clock.advance(RESET_S - 1)
        rig.poke()
        assert len(engine.turns) == 1
        await clock.advance(JITTER_S + 1)
        rig.poke()
        await rig.until_said("you said: Continue.")
        await rig.until_said("you said: are you there?")
        assert [s.prompt.text for s in engine.turns[1:]] == ["Continue.", "are you there?"]


async def test_a_turn_that_waits_out_a_limit_loses_nothing_of_its_answer(tmp_path: Path) -> None:
    clock = FakeClock()

    async def half(strings: Strings) -> None:
        await strings.start()
        await strings.say("the first half")
        await strings.fail("quota", "The limit is reached.", clock.now() + RESET_S)

    async def rest(strings: Strings) -> None:
        await strings.start()
        await strings.end("the second half")

    async with open_rig(tmp_path, PuppetEngine(half, rest), clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.until_said("continues by itself")
        await clock.advance(RESET_S + JITTER_S)
        rig.poke()
        (turn,) = await rig.until_ended()
        await rig.until_said("the second half")
        first, told, second = rig.said()
        assert (first, second) == ("the first half", "the second half")
        assert "The limit is reached." in told
        assert turn.answer == "the first half\n\nthe second half"


async def test_what_had_begun_in_a_session_that_cannot_be_found_again_is_said_again(tmp_path: Path) -> None:
    clock = FakeClock()

    async def forgetful(strings: Strings) -> None:
        await strings.emit(SessionStarted())
        await strings.say("half")
        await strings.fail("quota", "The limit is reached.", clock.now() + RESET_S)

    async with open_rig(tmp_path, PuppetEngine(forgetful, echo), clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.until_said("continues by itself")
        await clock.advance(RESET_S + JITTER_S)
        rig.poke()
        await rig.until_said("you said: hello")


async def test_a_reset_that_never_helps_is_believed_only_a_few_times(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("quota", times=9, began=True, after_s=20, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, max_attempts=3) as rig:
        await rig.channel.say("hello")
        for attempt in range(1, 4):
            await rig.until(
                lambda tx, n=attempt: [t for t in tx.turns.of(MAIN, statuses=("parked",)) if t.attempts == n]
            )
            await clock.advance(20 + JITTER_S)
            rig.poke()
        await rig.until_said("I gave up after 4 tries")
        (turn,) = await rig.until_ended()
        assert turn.status == "failed"


async def test_a_reset_that_is_too_near_is_backed_off_from(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("rate_limit", after_s=0.1, clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, retry_first_s=30) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        assert turn.retry_at is not None
        assert turn.retry_at >= clock.now() + 30


async def test_people_are_told_once_of_the_same_reset(tmp_path: Path) -> None:
    clock = FakeClock()
    reset_at = clock.now() + RESET_S

    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.fail("quota", "The limit is reached.", reset_at)

    async with open_rig(tmp_path, PuppetEngine(limited, limited, echo), clock=clock) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        await rig.store.write(lambda tx: tx.turns.note(turn.id, retry_at=clock.now()))
        rig.poke()
        await rig.until(lambda tx: [t for t in tx.turns.of(MAIN, statuses=("parked",)) if t.attempts == 2])
        await clock.advance(RESET_S + JITTER_S)
        rig.poke()
        await rig.until_said("you said: hello")
        assert sum("The limit is reached." in text for text in rig.said()) == 1


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
    engine = PuppetEngine(*failing("quota", times=12, after_s=RESET_S, clock=clock))
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
        await rig.until_said("I gave up after 3 tries")
        await rig.until_said("you said: water")
        await rig.until_idle()
        assert [(await rig.inbox_row(receipt)).status for receipt in receipts] == ["failed", "done"]
        assert len(engine.turns) == 4


async def stale(strings: Strings) -> None:
    await strings.start()
    await strings.fail("stale_session", "The session is gone.")


async def test_a_session_that_cannot_be_resumed_twice_is_given_up_and_the_message_runs_in_a_new_one(
    tmp_path: Path,
) -> None:
    engine = PuppetEngine(echo, stale, stale, echo)
    async with open_rig(tmp_path, engine) as rig:
        await rig.channel.say("one & <two>")
        await rig.until_ended(1)
        await rig.channel.say("three")
        one, two = await rig.until_ended(2)
        await rig.until_idle()
        assert (two.status, two.attempts) == ("done", 3)
        assert one.session_id != two.session_id
        assert [brief.resume is None for brief in engine.briefs] == [True, False, False, True]
        old = await rig.store.read(lambda tx: tx.sessions.get(one.session_id))
        conversation = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert old is not None
        assert conversation is not None
        assert (old.retired, conversation.session_id) == (True, two.session_id)
        prompt = engine.turns[-1].prompt.text
        assert "<asked>one &amp; &lt;two&gt;</asked>" in prompt
        assert "<answered>you said: one &amp; &lt;two&gt;</answered>" in prompt
        assert prompt.endswith("</recap>\n\nthree")
        assert "with a recap" in rig.said()[1]
        assert rig.said().count(rig.said()[1]) == 1
        await rig.channel.say("four")
        assert (await rig.until_ended(3))[-1].prompt.text == "four"


async def test_a_session_that_was_given_up_for_good_leaves_its_recap_to_the_next_message(
    tmp_path: Path,
) -> None:
    async def begun_then_stale(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await strings.fail("stale_session", "The session is gone.")

    async with open_rig(tmp_path, PuppetEngine(echo, begun_then_stale, begun_then_stale, echo)) as rig:
        for number, text in enumerate(("one", "two", "three", "four"), 1):
            await rig.channel.say(text)
            await rig.until_ended(number)
        one, _, three, four = await rig.turns()
        assert one.session_id == three.session_id != four.session_id
        assert "starts a new one" in (three.failure.text if three.failure else "")
        assert "<asked>one</asked>" in four.prompt.text
        await rig.until_said("with a recap")


async def test_an_engine_that_finds_every_session_stale_is_not_tried_for_ever(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(stale)) as rig:
        await rig.channel.say("one")
        (turn,) = await rig.until_ended(1)
        assert turn.status == "failed"
        assert turn.attempts <= 6


def test_a_recap_is_bounded_and_holds_no_recap() -> None:
    prompt = with_recap(Prompt("now"), "<recap>\nold\n</recap>")
    turn = Turn(
        TurnId("t"), SessionId("s"), MAIN, PUPPET, "done", "message", prompt, 0.0, answer="x" * 50_000
    )
    recap = recap_of([turn] * 30)
    assert len(recap) < MAX_CHARS + 500
    assert "<asked>now</asked>" in recap


async def test_one_good_turn_forgives_a_stale_session(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo, stale, echo, stale, echo)) as rig:
        for number in range(1, 6):
            await rig.channel.say(str(number))
            await rig.until_ended(number)
        assert len({turn.session_id for turn in await rig.turns()}) == 1


async def test_a_retry_shows_in_the_log_and_not_in_the_chat(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(*failing("overloaded", clock=clock))
    async with open_rig(tmp_path, engine, clock=clock, outage_pauses_s=(5,)) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        logged = await rig.store.read(lambda tx: tx.events.of_turn(turn.id))
        assert [e.event.kind for e in logged if isinstance(e.event, Notice)] == ["parked"]
        assert rig.said() == []
