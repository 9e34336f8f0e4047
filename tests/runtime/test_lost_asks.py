"""An ask outlives the turn that asked: it is shown again, and its answer goes on with the work, once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.puppet import PUPPET, Play, PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MAIN, MEMBER, Rig, only_alive, open_rig

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.conversation import BusyPolicy
from pilothouse.core.engine import Wake
from pilothouse.core.event import Asked, ToolFinished
from pilothouse.core.ids import AskId, ChannelId, ConversationId, ScheduleId
from pilothouse.core.message import Address
from pilothouse.core.people import QUESTION as QUESTIONS
from pilothouse.core.people import Approvers, Authority
from pilothouse.core.schedule import At, Schedule
from pilothouse.core.store import Tx
from pilothouse.runtime.agent_calls.questions import AGENT_QUESTION
from pilothouse.runtime.asks.settle import apply_answer
from pilothouse.runtime.asks.show import raise_ask
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.engines import put_wake
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.outbox import content_of
from pilothouse.runtime.ports import SystemClock, new_id
from pilothouse.runtime.roles import note_author
from pilothouse.stores.sqlite import STORE
from pilothouse.testing.clock import FakeClock

WENT_ON = "No longer open: Run make? (you went on without answering)"
MAKE = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})
ONE = Ask(AskId("one"), "approval", "Look at the clock?", {"command": "date"})
TWO = Ask(AskId("two"), "approval", "Write it down?", {"command": "date > now"})


OWNERS = ConversationId("memory:owners-own")
QUESTION = Ask(AskId("q"), "question", "Which colour?", {"q": "colour"}, free_text=True)


def allow_what_is_open(tx: Tx) -> None:
    (row,) = tx.asks.open_in(MAIN)
    apply_answer(tx, new_id, TOPICS, row, Decision("allow"), row.asked_at)


def told_of_the_loss(tx: Tx, *statuses: str) -> list[str]:
    rows = [row for turn in tx.turns.of(MAIN) for row in tx.outbox.of_turn(turn.id)]
    texts = [content_of(row).text for row in rows if not statuses or row.status in statuses]
    return [text for text in texts if "while this waited for an answer" in text]


def asks(*asked: Ask) -> Play:
    """Asks one after another and says what it was told."""

    async def play(strings: Strings) -> None:
        await strings.start()
        told = [(await strings.ask(ask)) for ask in asked]
        await strings.end("told: " + ", ".join(f"{d.verdict} {d.text}".strip() for d in told))

    return play


@asynccontextmanager
async def after_a_crash(
    folder: Path,
    *plays: Play,
    ask: Ask = MAKE,
    graceful: bool = False,
    behind: str = "",
    busy: BusyPolicy = "collect",
) -> AsyncIterator[Rig]:
    """A turn asked, `behind` was said while it waited, and its gateway died; this is the next one."""
    async with open_rig(folder, PuppetEngine(asks(ask)), name="first", grace_s=0.01) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        if behind:
            assert "comes after it" in (await rig.channel.say(behind)).text
        if not graceful:
            rig.crash()
    alive = only_alive("second")
    async with open_rig(folder, PuppetEngine(*plays), name="second", alive=alive, busy=busy) as rig:
        yield rig


@pytest.mark.parametrize("graceful", [False, True], ids=["crash", "shutdown"])
async def test_the_ask_stays_open_is_shown_again_and_its_answer_goes_on_in_a_new_turn(
    tmp_path: Path, graceful: bool
) -> None:
    async with after_a_crash(tmp_path, asks(MAKE), graceful=graceful) as rig:
        if not graceful:
            assert "still open" in await rig.until_said("Run make?")
        (row,) = await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
        ask = row.ask
        await rig.channel.answer(ask, "allow")
        await rig.until_said("told: allow")
        first, second = await rig.until_ended(2)
        assert (second.status, second.cause) == ("done", "answer")
        if graceful:
            assert (first.status, first.failure) == ("cancelled", None), "nothing crashed"
        else:
            assert first.failure is not None and first.failure.kind == "crash"
        assert first.session_id == second.session_id
        assert rig.engine.turns[0].brief.resume is not None
        assert "Run make?" in rig.engine.turns[0].prompt.text
        settled = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert settled is not None
        assert (settled.state, settled.used) == ("answered", True)
        assert await rig.store.read(lambda tx: tx.asks.open_in(MAIN)) == []


@pytest.mark.parametrize("graceful", [False, True], ids=["crash", "shutdown"])
async def test_that_a_turn_was_lost_while_it_waited_is_told_once_where_it_was_asked(
    tmp_path: Path, graceful: bool
) -> None:
    async with after_a_crash(tmp_path, asks(MAKE), graceful=graceful) as rig:
        (told,) = await rig.until(lambda tx: told_of_the_loss(tx, "done"))
        assert "Answer it, and the work goes on." in told
        (row,) = await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
        await rig.channel.answer(row.ask, "allow")
        await rig.until_said("told: allow")
        assert await rig.store.read(told_of_the_loss) == [told]


async def test_the_answer_holds_in_the_session_that_replaces_one_that_cannot_be_resumed(
    tmp_path: Path,
) -> None:
    async def stale(strings: Strings) -> None:
        await strings.start()
        await strings.fail("stale_session", "The session is gone.")

    again = asks(MAKE, msgspec.structs.replace(MAKE, id=AskId("a2")))
    async with after_a_crash(tmp_path, stale, stale, again) as rig:
        first = await rig.until_asked()
        await rig.channel.answer(first, "allow")
        (second,) = await rig.until(lambda tx: tx.asks.open_in(MAIN))
        assert second.ask.id != first.id, "it is used once"
        await rig.channel.answer(second.ask, "deny", text="not again")
        await rig.until_said("told: allow, deny not again")
        one, two = await rig.until_ended(2)
        assert one.session_id != two.session_id


async def test_the_stored_answer_is_used_once(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, asks(MAKE, msgspec.structs.replace(MAKE, id=AskId("a2")))) as rig:
        first = await rig.until_asked()
        await rig.channel.answer(first, "allow")
        second = await rig.until(lambda tx: tx.asks.open_in(MAIN))
        assert second[0].ask.id != first.id
        await rig.channel.answer(second[0].ask, "deny", text="not again")
        await rig.until_said("told: allow, deny not again")


async def test_any_other_payload_is_asked_anew(tmp_path: Path) -> None:
    other = Ask(AskId("b"), "approval", "Run make clean?", {"command": "make clean"})
    async with after_a_crash(tmp_path, asks(other)) as rig:
        await rig.channel.answer(await rig.until_asked(), "allow")
        anew = await rig.until_asked("make clean")
        await rig.channel.answer(anew, "deny", text="no")
        await rig.until_said("told: deny no")


async def test_an_answer_that_was_never_used_is_not_kept_for_another_day(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, echo, asks(MAKE)) as rig:
        await rig.channel.answer(await rig.until_asked(), "allow")
        await rig.until_said("you said: Continue.")
        await rig.channel.say("go on")
        anew = await rig.until_asked()
        await rig.channel.answer(anew, "deny", text="not today")
        await rig.until_said("told: deny not today")


async def test_a_no_is_carried_over_too(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, asks(MAKE)) as rig:
        await rig.channel.answer(await rig.until_asked(), "deny", text="never")
        await rig.until_said("told: deny never")


async def test_a_plain_no_ends_it_and_calls_no_model(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, echo, behind="and then this") as rig:
        await rig.channel.answer(await rig.until_asked(), "deny")
        await rig.until_said("Stopped.")
        await rig.until_said("you said: and then this")
        assert [strings.prompt.text for strings in rig.engine.turns] == ["and then this"]
        assert [turn.cause for turn in await rig.until_ended(2)] == ["message", "message"]


async def test_a_plain_no_is_no_answer_to_what_is_asked_later(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, asks(MAKE)) as rig:
        first = await rig.until_asked()
        await rig.channel.answer(first, "deny")
        await rig.until_said("Stopped.")
        await rig.channel.say("now do it")
        (row,) = await rig.until(lambda tx: tx.asks.open_in(MAIN))
        await rig.channel.answer(row.ask, "allow")
        await rig.until_said("told: allow")


async def test_a_plain_no_given_just_before_the_crash_ends_it_too(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE)), name="first") as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        rig.crash()
    async with STORE.open(STORE.config(path=str(tmp_path / "pilothouse.db"))) as store:

        def refuse(tx: Tx) -> None:
            (row,) = tx.asks.open_in(MAIN)
            apply_answer(tx, new_id, TOPICS, row, Decision("deny"), row.asked_at)

        await store.write(refuse)
    async with open_rig(tmp_path, name="second", alive=only_alive("second")) as rig:
        await rig.until_said("Stopped.")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await rig.until_idle()
        assert rig.engine.turns == []


async def test_a_question_is_answered_by_a_plain_reply_after_the_restart(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, asks(QUESTION), ask=QUESTION) as rig:
        await rig.until_asked()
        assert (await rig.channel.say("blue")).text == "Got it."
        await rig.until_said("told: answer blue")
        assert len(rig.engine.turns) == 1


async def test_whoever_goes_on_without_answering_supersedes_the_ask(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, echo) as rig:
        ask = await rig.until_asked()
        await rig.channel.say("forget it")
        assert await rig.until_said(WENT_ON) == WENT_ON
        await rig.until_said("you said: forget it")
        late = await rig.channel.answer(ask, "allow")
        assert not late.accepted
        assert "superseded" in late.text
        assert len(rig.engine.turns) == 1
        await rig.until_idle()
        assert rig.said().count(WENT_ON) <= 2, "its own messages say so, and nothing else"


async def test_what_is_a_turn_by_itself_waits_for_a_question_and_is_not_its_answer(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(QUESTION), echo)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        receipt = await rig.ask_alone("what is the time?")
        assert "(/cancel drops it)" in receipt.text
        assert "Still open here: Which colour? (to answer it: pilothouse chat)" in receipt.text
        assert (await rig.channel.say("blue")).text == "Got it."
        await rig.until_said("told: answer blue")
        await rig.until_said("you said: what is the time?")


async def test_whoever_opens_a_new_session_beside_a_question_is_told_to_answer_it_where_it_stands(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks(QUESTION), echo)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        receipt = await rig.channel.say("/new what is the time?")
        assert receipt.text.endswith("Which colour? (answer it above)")
        assert "`" not in receipt.text, "a receipt is plain text"
        await rig.channel.say("blue")
        await rig.until_said("told: answer blue")


@pytest.mark.parametrize("graceful", [False, True], ids=["crash", "shutdown"])
async def test_what_was_said_before_the_turn_was_lost_waits_on_behind_its_ask(
    tmp_path: Path, graceful: bool
) -> None:
    async with after_a_crash(
        tmp_path, echo, asks(MAKE), echo, graceful=graceful, behind="and then this"
    ) as rig:
        await rig.channel.say("elsewhere", "other")
        await rig.until_said("you said: elsewhere")
        (row,) = await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
        assert (await rig.channel.answer(row.ask, "allow")).accepted
        await rig.until_said("told: allow")
        await rig.until_said("you said: and then this")
        assert [turn.cause for turn in await rig.until_ended(3)] == ["message", "answer", "message"]
        assert not any("No longer open" in text for text in rig.said())


async def come_due(rig: Rig) -> str:
    now = rig.ports.clock.now()
    nightly = Schedule(
        ScheduleId("nightly"), MAIN, At(now), "the nightly report", next_at=now, own_session=False
    )
    await rig.store.write(lambda tx: tx.schedules.save(nightly))
    rig.poke()
    return nightly.prompt


async def wake(rig: Rig) -> str:
    (lost,) = await rig.turns()
    woken = Wake(lost.session_id, "a task ended", "w1")
    await rig.store.write(lambda tx: put_wake(tx, rig.ports, PUPPET, woken))
    rig.poke()
    return woken.cause


@pytest.mark.parametrize(("comes", "cause"), [(come_due, "schedule"), (wake, "wake")])
async def test_what_no_person_said_waits_behind_the_ask_of_a_lost_turn(
    tmp_path: Path, comes: Callable[[Rig], Awaitable[str]], cause: str
) -> None:
    async with after_a_crash(tmp_path, echo, asks(MAKE), echo) as rig:
        await rig.until_asked()
        said = await comes(rig)
        await rig.until(lambda tx: tx.inbox.waiting(MAIN))
        await rig.channel.say("elsewhere", "other")  # whatever could begin had begun before it
        await rig.until_ended(1, ConversationId("memory:other"))
        (row,) = await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
        assert (await rig.channel.answer(row.ask, "allow")).accepted
        await rig.until_said("told: allow")
        await rig.until_said(said)
        assert [turn.cause for turn in await rig.until_ended(3)] == ["message", "answer", cause]
        assert not any("No longer open" in text for text in rig.said())


async def test_a_turn_by_itself_supersedes_the_ask_of_a_lost_turn_too(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, echo, echo, behind="and then this") as rig:
        await rig.until_asked()
        await rig.ask_alone("what is the time?")
        await rig.until_said(WENT_ON)
        await rig.until_said("you said: what is the time?")
        assert [one.prompt.text for one in rig.engine.turns] == ["and then this", "what is the time?"]


async def test_what_waits_behind_two_asks_of_a_lost_turn_waits_for_both(tmp_path: Path) -> None:
    async def asks_both(strings: Strings) -> None:
        await strings.start()
        await strings.emit(Asked(ONE), Asked(TWO))
        await anyio.sleep_forever()

    async with open_rig(tmp_path, PuppetEngine(asks_both), name="first") as rig:
        await rig.channel.say("go")
        await rig.until(lambda tx: len(tx.asks.open_in(MAIN)) == 2)
        await rig.channel.say("and then this")
        rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second")) as rig:
        await rig.channel.answer(await rig.until_asked(ONE.title), "allow")
        await rig.until_ended(2)
        await rig.channel.say("elsewhere", "other")
        await rig.until_ended(1, ConversationId("memory:other"))
        assert len(await rig.turns()) == 2, "the lost one, and that of the answer"
        await rig.channel.answer(await rig.until_asked(TWO.title), "allow")
        await rig.until_said("you said: and then this")
        assert [turn.cause for turn in await rig.until_ended(4)] == ["message", "answer", "answer", "message"]


async def test_what_waits_behind_an_ask_of_a_lost_turn_runs_once_that_has_expired(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = {"clock": clock, "ask_timeout_s": 60.0}
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE)), name="first", **settings) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        await rig.channel.say("and then this")
        rig.crash()
    await clock.advance(1)
    async with open_rig(tmp_path, name="second", alive=only_alive("second"), **settings) as rig:
        await rig.until_asked()
        assert rig.engine.turns == []
        await clock.advance(60)
        rig.poke()
        await rig.until_said("so the work has stopped")
        await rig.until_said("you said: and then this")
        assert [turn.cause for turn in await rig.until_ended(2)] == ["message", "message"]
        assert await rig.audited("ask.") == ["ask.asked", "ask.expired"]


async def test_whoever_goes_on_takes_along_what_waited_behind_the_ask(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, echo, behind="and then this") as rig:
        await rig.until_asked()
        await rig.channel.say("forget it")
        assert await rig.until_said(WENT_ON) == WENT_ON
        await rig.until_ended(2)
        (strings,) = rig.engine.turns
        assert strings.prompt.text.index("and then this") < strings.prompt.text.index("forget it")


async def test_a_new_session_does_not_wait_for_an_ask_of_the_old_one(tmp_path: Path) -> None:
    async with after_a_crash(tmp_path, echo, behind="and then this") as rig:
        ask = await rig.until_asked()
        await rig.channel.say("/new")
        await rig.until_said("you said: and then this")
        assert [row.ask.id for row in await rig.store.read(lambda tx: tx.asks.open_in(MAIN))] == [ask.id]


async def test_an_approver_who_was_not_shown_the_ask_yet_is_asked_once(tmp_path: Path) -> None:
    closed = Address(ChannelId("terminal"), "admin")

    def live_there(tx: Tx) -> ConversationId:
        home = ensure_place(tx, closed, 1.0, private=True)
        note_author(tx, ADMIN, home, 0.0)
        return home.id

    def asked_in(rig: Rig, place: str) -> int:
        return sum("Run make?" in text for text in rig.said(place))

    engine, channel, admins = (
        PuppetEngine(echo, asks(MAKE)),
        MemoryChannel(),
        {"ordinary": Approvers(("admin",))},
    )
    async with open_rig(tmp_path, engine, channel, name="first", approvals=admins) as rig:
        await rig.channel.say("hi", "owners-own")
        await rig.until_said("you said: hi")
        home = await rig.store.write(live_there)
        await rig.channel.say("go", author=MEMBER)
        await rig.until_true(lambda: asked_in(rig, "owners-own") == asked_in(rig, "main") == 1)
        await rig.until(lambda tx: not tx.outbox.unfinished(MAIN) and not tx.outbox.unfinished(OWNERS))
        rig.crash()
    async with open_rig(tmp_path, None, channel, name="second", alive=only_alive("second")) as rig:
        await rig.until_true(lambda: asked_in(rig, "owners-own") == asked_in(rig, "main") == 2)
        waiting = await rig.store.read(lambda tx: tx.outbox.unfinished(home))
        assert [content_of(row).kind for row in waiting] == ["ask"]


async def test_an_answer_given_just_before_the_crash_goes_on_by_itself(tmp_path: Path) -> None:
    """It was stored, and the engine never heard of it."""
    async with open_rig(tmp_path, PuppetEngine(asks(MAKE)), name="first") as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        rig.crash()
    async with STORE.open(STORE.config(path=str(tmp_path / "pilothouse.db"))) as store:
        await store.write(allow_what_is_open)
    engine = PuppetEngine(asks(MAKE))
    async with open_rig(tmp_path, engine, name="second", alive=only_alive("second")) as rig:
        assert "work continues by itself" in await rig.until_said("while this waited for an answer")
        await rig.until_said("told: allow")
        assert [turn.cause for turn in await rig.until_ended(2)] == ["message", "answer"]


async def test_nobody_is_asked_twice_what_they_said_to_a_turn_that_runs_again(tmp_path: Path) -> None:
    async def hears_and_hangs(strings: Strings) -> None:
        await strings.start()
        await strings.ask(QUESTION)
        await anyio.sleep_forever()

    async with open_rig(tmp_path, PuppetEngine(hears_and_hangs), name="first") as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        await rig.channel.say("blue")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.status == "running")
        rig.crash()
    engine = PuppetEngine(asks(QUESTION))
    async with open_rig(tmp_path, engine, name="second", alive=only_alive("second")) as rig:
        await rig.until_said("told: answer blue")
        (turn,) = await rig.until_ended()
        assert (turn.attempts, turn.cause) == (2, "message")
        assert not any("Which colour?" in text for text in rig.said())


async def test_an_ask_of_a_lost_turn_expires_as_a_no_and_starts_nothing(tmp_path: Path) -> None:
    clock, engine = FakeClock(), PuppetEngine(asks(MAKE))
    async with open_rig(tmp_path, engine, name="first", clock=clock, ask_timeout_s=60) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        rig.crash()
    await clock.advance(61)
    async with open_rig(tmp_path, name="second", clock=clock, alive=only_alive("second")) as rig:
        await rig.until_said("so the work has stopped")
        await rig.until_idle()
        assert rig.engine.turns == []


async def test_a_message_waits_behind_the_turn_of_an_answer_that_waits_out_a_limit(tmp_path: Path) -> None:
    """No row of the inbox stands for that turn, and still it comes first."""

    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.fail("quota", "The limit is reached.", SystemClock().now() + 3600)

    async with after_a_crash(tmp_path, limited, echo) as rig:
        await rig.channel.answer(await rig.until_asked(), "allow")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        assert "comes after it" in (await rig.channel.say("are you there?")).text
        await rig.channel.say("elsewhere", "other")
        await rig.until_said("you said: elsewhere")
        assert "are you there?" not in [strings.prompt.text for strings in rig.engine.turns]
        await rig.channel.say("/stop")
        await rig.until_said("you said: are you there?")


@pytest.mark.parametrize("heard", [False, True], ids=["unheard", "heard"])
async def test_an_answer_to_a_tools_question_whose_call_died_starts_the_next_turn(
    tmp_path: Path, heard: bool
) -> None:
    answered = anyio.Event()

    async def works(strings: Strings) -> None:
        await strings.start()
        await strings.tool(title="pilothouse.ask_user_question")
        await answered.wait()
        if heard:
            await strings.tool_done()
        await anyio.sleep_forever()

    async with open_rig(tmp_path, PuppetEngine(works), name="first") as rig:
        await rig.channel.say("ask them")
        turn = await rig.until(lambda tx: (live := tx.turns.live_in(MAIN)) and live.began and live)
        payload: dict[str, Any] = {"question": "Which tea?", "options": [], "turn": turn.id, "key": "k"}
        ask = Ask(AskId(""), "question", "Which tea?", payload, free_text=True, expires_at=9e9)
        authority = Authority(QUESTIONS, turn.prompt.authors, str(tmp_path))
        await rig.store.write(
            lambda tx: raise_ask(
                tx, new_id, ask, topic=AGENT_QUESTION, authority=authority, places=[MAIN], at=1.0
            )
        )
        await rig.until_delivered()
        await rig.channel.say("green")
        await rig.until(lambda tx: tx.asks.newest(states=("answered",)))
        answered.set()
        if heard:
            await rig.until(
                lambda tx: any(isinstance(one.event, ToolFinished) for one in tx.events.of_turn(turn.id))
            )
        rig.crash()
    async with open_rig(tmp_path, PuppetEngine(echo), name="second", alive=only_alive("second")) as rig:
        await rig.until_said("Pilothouse stopped in the middle of this.")
        if not heard:
            await rig.until_said("Question: Which tea?\nResult: green")
        await rig.until_idle()
        turns = await rig.turns()
        assert len(turns) == (1 if heard else 2), "the agent hears it once"
        assert turns[-1].session_id == turns[0].session_id
