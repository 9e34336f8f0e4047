"""Asks reach people: in the private chat of an owner when their own place was left, for hours, with one reminder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.puppet import Play, PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MAIN, MEMBER, STRANGER, Rig, only_alive, open_rig

from pilothouse.bootstrap.open_asks import describe_open_asks
from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import AskId, ChannelId, ConversationId, UserId
from pilothouse.core.message import Address, Author, InboundMessage
from pilothouse.core.people import QUESTION, Approvers, Authority, People, RouteTo
from pilothouse.core.store import Tx
from pilothouse.runtime.agent_calls.questions import AGENT_QUESTION
from pilothouse.runtime.asks.deadlines import Reminders
from pilothouse.runtime.asks.show import raise_ask
from pilothouse.runtime.conversations.follow_up import put_follow_up
from pilothouse.runtime.facts import ATTENDED, PRIVATE_CHAT
from pilothouse.runtime.ports import ASKS
from pilothouse.runtime.roles import AWAY_AFTER_S, is_attended, note_attendance
from pilothouse.testing.clock import FakeClock

MAKE = Ask(AskId("a"), "approval", "Run make?", {"tool": "Bash", "input": {"command": "make"}})
ALICE = Author(UserId("memory:alice"), "Alice")
PHONE = ConversationId("memory:phone")
PEOPLE = People({PERSON.id: "owner", ALICE.id: "owner", ADMIN.id: "admin", MEMBER.id: "member"})
HOUR_S = 3600.0


async def asks(strings: Strings) -> None:
    await strings.start()
    decision = await strings.ask(MAKE)
    if decision.verdict == "deny" and not decision.text:
        await strings.interrupted.wait()
    await strings.end(f"told: {decision.verdict} {decision.text}")


async def pair(rig: Rig) -> None:
    """Alice and an admin have private chats."""
    await rig.channel.say("hi", "phone", author=ALICE)
    await rig.channel.say("hi", "admins-own", author=ADMIN)
    await rig.until_ended(conversation=PHONE)
    await rig.until_ended(conversation=ConversationId("memory:admins-own"))
    await rig.until_idle()
    rig.engine.plays[:] = [asks]


async def sit_down(rig: Rig) -> None:
    """Open a terminal at MAIN, and leave it open."""
    epoch, now = rig.store.epoch, rig.ports.clock.now()
    await rig.store.write(lambda tx: note_attendance(tx, MAIN, epoch, now))


async def sent_to_phone(rig: Rig) -> str:
    text = await rig.until_true(
        lambda: next((text for text in rig.said("phone") if "wants to run `make`" in text), "")
    )
    await rig.until_delivered(ConversationId("memory:phone"))
    return text


async def test_the_ask_of_a_script_goes_to_the_owner_s_private_chat(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE) as rig:
        await pair(rig)
        await rig.store.write(lambda tx: note_attendance(tx, MAIN, None, rig.ports.clock.now()))
        await rig.channel.say("go")
        text = await sent_to_phone(rig)
        assert "From Person's memory chat." in text and "Also sent to" not in text, "Alice knows who she is"
        assert any("Also sent to: Alice." in said for said in rig.said())
        assert not any("make" in said for said in rig.said("admins-own")), "only owners are asked"
        assert (await rig.channel.say("yes", "phone", author=ALICE)).text == "Allowed by Alice: make."
        await rig.until_said("told: allow")


async def test_an_ask_follows_its_owner_when_the_terminal_is_left(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE) as rig:
        await pair(rig)
        await sit_down(rig)
        await rig.channel.say("go")
        ask = await rig.until_asked()
        assert rig.said("phone") == ["you said: hi"], "somebody sits at the terminal"
        await rig.store.write(lambda tx: tx.set_fact(ATTENDED.of(MAIN), "[999]"))
        served = frozenset({ChannelId("memory")})
        told = await rig.store.read(
            lambda tx: describe_open_asks(tx, PEOPLE, MAIN, served, rig.ports.clock.now())
        )
        assert told.startswith(
            "An approval is still open. It goes to Alice in a private chat on memory, for up to"
        )
        rig.ports.signals.poke(ASKS)
        assert "From Person's memory chat." in await sent_to_phone(rig)
        rig.ports.signals.poke(ASKS)
        assert (await rig.channel.answer(ask, "allow", author=ALICE)).accepted
        await rig.until_said("told: allow")
        await rig.until_idle()
        closed, told = rig.said("phone")[1:]
        assert closed == "Allowed by Alice: make", "it was shown once, and is settled there too"
        assert told == "From Person's memory chat.\n\ntold: allow ", "and the answer arrives in both places"


PATIENT: dict[str, Any] = {"hold_s": 1e9, "hang_after_s": 1e9, "lease_s": 1e9}


async def places_of_the_ask(rig: Rig) -> tuple[ConversationId, ...]:
    """Return the other places of the only open ask, once all that is due was shown."""
    await Reminders(rig.ports).look()
    (row,) = await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
    return row.shown_in


@pytest.mark.parametrize("answerer", [ALICE, PERSON])
async def test_the_ask_of_an_open_terminal_that_nobody_uses_is_sent_to_the_phone(
    tmp_path: Path, answerer: Author
) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE, clock=clock, **PATIENT) as rig:
        await pair(rig)
        await sit_down(rig)
        await clock.advance(AWAY_AFTER_S - 1)
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await clock.advance(AWAY_AFTER_S - 1)
        assert await places_of_the_ask(rig) == ()
        await clock.advance(1)
        assert await places_of_the_ask(rig) == (PHONE,)
        assert "From Person's memory chat." in await sent_to_phone(rig)
        assert (await rig.channel.answer(ask, "allow", author=answerer)).accepted
        await rig.until_said("told: allow")
        await rig.until_idle()
        closed = f"Allowed by {answerer.name}: make"
        assert closed in rig.said("phone") and closed in rig.said()


async def test_an_answer_at_a_terminal_counts_as_use_and_a_later_ask_goes_to_the_phone_at_once(
    tmp_path: Path,
) -> None:
    clock, goes_on = FakeClock(), anyio.Event()

    async def asks_three_times(strings: Strings) -> None:
        await strings.start()
        await strings.ask(MAKE)
        await strings.ask(msgspec.structs.replace(MAKE, id=AskId("b")))
        await goes_on.wait()
        await strings.ask(msgspec.structs.replace(MAKE, id=AskId("c")))
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE, clock=clock, **PATIENT) as rig:
        await pair(rig)
        rig.engine.plays[:] = [asks_three_times]
        await sit_down(rig)
        await rig.channel.say("go")
        first = await rig.until_asked()
        await clock.advance(AWAY_AFTER_S - 1)
        await rig.channel.answer(first, "allow")
        second = await rig.until_asked()
        await clock.advance(1)
        assert await places_of_the_ask(rig) == ()
        await rig.channel.answer(second, "allow")
        await clock.advance(AWAY_AFTER_S)
        goes_on.set()
        third = await rig.until_asked()
        row = await rig.store.read(lambda tx: tx.asks.get(third.id))
        assert row is not None and row.shown_in == (PHONE,) and row.ask.whose == "Also sent to: Alice."
        await rig.channel.answer(third, "allow", author=ALICE)
        await rig.until_said("done")
        await rig.until_idle()


async def test_a_question_of_an_agent_s_tool_follows_its_owner_too(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE, clock=clock, **PATIENT) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        await pair(rig)
        await sit_down(rig)
        asked = Ask(AskId(""), "question", "Which database?", {}, free_text=True, expires_at=2e9)
        authority = Authority(QUESTION, (PERSON.id,))

        def unit(tx: Tx) -> None:
            topic, at = AGENT_QUESTION, clock.now()
            raise_ask(tx, rig.ports.ids, asked, topic=topic, authority=authority, places=[MAIN], at=at)

        await rig.store.write(unit)
        assert await places_of_the_ask(rig) == ()
        await clock.advance(AWAY_AFTER_S)
        assert await places_of_the_ask(rig) == (PHONE,)
        await rig.until_true(lambda: any("Which database?" in text for text in rig.said("phone")))


def answers(text: str) -> Play:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.ask(MAKE)
        await strings.end(text)

    return play


async def fails(strings: Strings) -> None:
    await strings.start()
    await strings.ask(MAKE)
    await strings.fail("bad_request", "The disk is full.")


LONG = "First.\n\n```\n" + "code\n\n" * 200 + "```"
COPIES = [
    pytest.param(ALICE, answers("All tests pass."), ["All tests pass."], id="whole"),
    pytest.param(ALICE, answers(LONG), ["First.\n\n… `/show "], id="shortened, outside of the code"),
    pytest.param(ALICE, fails, ["Failed: The disk is full."], id="a failure"),
    pytest.param(PERSON, answers("All tests pass."), [], id="answered at home"),
    pytest.param(ADMIN, answers("All tests pass."), [], id="only owners read what others are told"),
]


@pytest.mark.parametrize(("answerer", "play", "copies"), COPIES)
async def test_the_result_is_also_told_where_an_owner_answered_the_ask(
    tmp_path: Path, answerer: Author, play: Play, copies: list[str]
) -> None:
    approvals = {"ordinary": Approvers(route="private"), "destructive": Approvers(route="private")}
    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE, approvals=approvals) as rig:
        await pair(rig)
        rig.engine.plays[:] = [play]
        await rig.channel.say("go")
        assert (await rig.channel.answer(await rig.until_asked(), "allow", author=answerer)).accepted
        (turn,) = await rig.until_ended()
        await rig.until_idle()
        closed, *told = [*rig.said("phone"), *rig.said("admins-own")][1:]
        rest = [text for text in told if text.startswith("From Person's memory chat.\n\n")]
        assert len(rest) == len(copies), [closed, *told]
        for text, copy in zip(rest, copies, strict=True):
            assert text.removeprefix("From Person's memory chat.\n\n").startswith(copy)
        await rig.channel.say(f"/show {turn.id}", "phone", author=ALICE)
        shown = "Nothing here is called" if not copies else turn.answer or "The disk is full."
        await rig.until_true(lambda: shown in rig.said("phone")[-1])


@pytest.mark.parametrize(("route", "attended"), [("here", False), ("auto", True)])
async def test_an_ask_stays_where_somebody_is_or_where_it_is_meant_to(
    tmp_path: Path, route: RouteTo, attended: bool
) -> None:
    approvals = {"ordinary": Approvers(route=route), "destructive": Approvers(route=route)}
    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE, approvals=approvals) as rig:
        await pair(rig)
        epoch, now = rig.store.epoch if attended else None, rig.ports.clock.now()
        await rig.store.write(lambda tx: note_attendance(tx, MAIN, epoch, now))
        await rig.channel.say("go")
        ask = await rig.until_asked()
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and (row.shown_in, row.ask.whose) == ((), "")
        told = await rig.store.read(lambda tx: describe_open_asks(tx, PEOPLE, MAIN, frozenset(), 0.0))
        assert told.endswith("`pilothouse chat` in this folder shows it again.")
        await rig.channel.answer(ask, "allow")
        await rig.until_idle()
        assert await rig.store.read(lambda tx: describe_open_asks(tx, PEOPLE, MAIN, frozenset(), 0.0)) == ""


async def test_an_ask_goes_to_no_chat_that_this_process_cannot_reach(tmp_path: Path) -> None:
    """A script without a gateway beside it would wait for an answer that nobody is asked for."""
    async with open_rig(tmp_path, PuppetEngine(asks), people=PEOPLE) as rig:

        def pair_elsewhere(tx: Tx) -> None:
            address = Address(ChannelId("telegram"), "7")
            tx.conversations.ensure(Conversation(PHONE, address, 0.0, private=True))
            tx.set_fact(PRIVATE_CHAT.of(ALICE.id), PHONE)
            note_attendance(tx, MAIN, None, rig.ports.clock.now())

        await rig.store.write(pair_elsewhere)
        await rig.channel.say("go")
        ask = await rig.until_asked()
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and (row.shown_in, row.ask.whose) == ((), "")
        await rig.channel.answer(ask, "allow")
        await rig.until_idle()


async def test_two_terminals_of_one_folder_are_left_when_both_are(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        mine = rig.store.epoch

        def unit(tx: Tx) -> list[bool]:
            found = [is_attended(tx, MAIN, 1.0)]
            note_attendance(tx, MAIN, mine, 1.0)
            note_attendance(tx, MAIN, None, 1.0)
            found.append(is_attended(tx, MAIN, 2.0))
            tx.set_fact(ATTENDED.of(MAIN), "[998,999]")
            return [*found, is_attended(tx, MAIN, 2.0)]

        assert await rig.store.write(unit) == [True, True, False]


async def test_a_place_that_never_saw_an_ask_is_not_told_how_it_ended(tmp_path: Path) -> None:
    async with open_rig(tmp_path, people=PEOPLE) as rig:
        terminal = ConversationId("terminal:/w")

        def open_terminal(tx: Tx) -> None:
            address = Address(ChannelId("terminal"), "/w")
            tx.conversations.ensure(Conversation(terminal, address, 0.0, private=True))
            tx.set_fact(PRIVATE_CHAT.of(ALICE.id), terminal)

        await rig.store.write(open_terminal)
        await rig.channel.say("hello", private=True)
        await rig.until_ended()
        await rig.channel.say("let me in", "theirs", author=STRANGER)
        (row,) = await rig.until(lambda tx: tx.asks.open_at(terminal, 0.0, lambda _: True))
        await rig.until_said("Let Stranger")
        await rig.channel.answer(row.ask, "allow")
        await rig.until_said("Allowed by Person: Let Stranger")
        kinds = await rig.store.read(lambda tx: [one.kind for one in tx.outbox.unfinished(terminal)])
        assert "notice" not in kinds and "ask" not in kinds


async def test_people_are_reminded_once_also_over_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = {"clock": clock, "hold_s": 1e9, "hang_after_s": 1e9, "lease_s": 1e9}
    async with open_rig(tmp_path, PuppetEngine(asks), name="first", **settings) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await clock.advance(8.9 * HOUR_S)
        rig.poke()
        await clock.advance(0.2 * HOUR_S)
        rig.poke()
        text = await rig.until_said("Still waiting for an answer; 3 hours left.")
        assert "wants to run `make`" in text
        await rig.until(lambda tx: not tx.outbox.unfinished(MAIN))
        rig.crash()
    alive = only_alive("second")
    async with open_rig(tmp_path, PuppetEngine(asks), name="second", alive=alive, **settings) as rig:
        await rig.until_said("This is still open.")
        rig.poke()
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said("told: allow")
        assert not any("Still waiting" in posted.text for posted in rig.channel.sent)


async def test_expiry_says_how_long_it_waited_and_what_becomes_of_the_work(tmp_path: Path) -> None:
    clock = FakeClock()
    settings = {"hold_s": 1e9, "hang_after_s": 1e9, "lease_s": 1e9}
    async with open_rig(tmp_path, PuppetEngine(asks), clock=clock, **settings) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        assert ask.expires_at == clock.now() + 12 * HOUR_S, "hours, by default"
        await clock.advance(12 * HOUR_S + 1)
        rig.poke()
        await rig.until_said("No answer in 12 hours; Puppet goes on without one: make")
        await rig.until_said("told: deny nobody answered in time")


async def test_a_turn_that_waits_leaves_its_place_to_others(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks, echo), max_turns_at_once=1) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await rig.channel.say("meanwhile", "other")
        await rig.until_said("you said: meanwhile")
        await rig.channel.answer(ask, "allow")
        await rig.until_said("told: allow")


async def release(rig: Rig, clock: FakeClock) -> Ask:
    await rig.channel.say("go")
    ask = await rig.until_asked()
    await clock.advance(61)
    rig.poke()
    await rig.until_true(lambda: any(event == "turn.released" for event, _ in rig.logged))
    assert rig.engine.open_sessions == 0
    assert (await rig.until_live()).status == "waiting"
    return ask


async def test_a_long_wait_needs_no_engine_and_the_answer_continues_the_turn(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(asks), clock=clock, hold_s=60, lease_s=1e9) as rig:
        ask = await release(rig, clock)
        receipt = await rig.channel.say("and then this")
        assert "I'm waiting for your answer above" in receipt.text
        rig.engine.plays[:] = [asks, echo]
        await rig.channel.answer(ask, "allow")
        await rig.until_said("told: allow")
        await rig.until_said("you said: and then this")
        first, _second = await rig.until_ended(2)
        assert (first.status, first.attempts) == ("done", 2)
        assert rig.engine.turns[1].brief.resume is not None, "in the same session"
        assert "answer to: make" in rig.engine.turns[1].prompt.text
        asked = await rig.store.read(lambda tx: tx.asks.of_turn(first.id))
        assert len(asked) == 1, "nobody is asked twice"


async def test_a_line_for_the_engine_itself_is_given_again_after_a_long_wait(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(asks), clock=clock, hold_s=60, lease_s=1e9) as rig:
        place = rig.channel.address("main")
        line = InboundMessage(
            place, PERSON, "1", "", private=True, file_text="/tool x {}", alone=True, engine_line=True
        )
        await rig.gateway.desk.accept(line)
        ask = await rig.until_asked()
        await clock.advance(61)
        rig.poke()
        await rig.until_true(lambda: any(event == "turn.released" for event, _ in rig.logged))
        await rig.channel.answer(ask, "allow")
        await rig.until_said("told: allow")
        told = [turn.prompt for turn in rig.engine.turns]
        assert [prompt.text for prompt in told] == ["/tool x {}"] * 2
        assert all(prompt.engine_line and prompt.commands for prompt in told)


async def test_a_no_after_a_long_wait_stops_the_turn_and_calls_no_engine(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(asks), clock=clock, hold_s=60, lease_s=1e9) as rig:
        await rig.channel.answer(await release(rig, clock), "deny")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await rig.until_said("Stopped.")
        assert len(rig.engine.turns) == 1


async def test_a_stop_ends_a_turn_that_waits_without_an_engine(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(asks), clock=clock, hold_s=60, lease_s=1e9) as rig:
        ask = await release(rig, clock)
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.state == "withdrawn"


async def test_without_an_answer_the_engine_goes_on_after_a_long_wait_too(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(asks), clock=clock, hold_s=60, lease_s=1e9) as rig:
        await release(rig, clock)
        await clock.advance(12 * HOUR_S)
        rig.poke()
        await rig.until_said("No answer in 12 hours; Puppet goes on without one: make")
        await rig.until_said("told: deny nobody answered in time")


async def test_who_may_answer_is_judged_by_the_rules_of_the_answer_too(tmp_path: Path) -> None:
    lenient = {"ordinary": Approvers(), "destructive": Approvers()}
    async with open_rig(tmp_path, PuppetEngine(asks), approvals=lenient) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        settings = rig.ports.settings()
        strict = {**settings.approvals, "destructive": Approvers(("owner",))}
        rig.ports.settings = lambda: msgspec.structs.replace(settings, approvals=strict)
        refused = await rig.channel.answer(ask, "allow", author=MEMBER)
        assert not refused.accepted
        assert "Only an owner may answer." in refused.text
        assert "comes after it" in (await rig.channel.say("yes", author=MEMBER)).text
        assert (await rig.channel.answer(ask, "allow", author=PERSON)).accepted
        await rig.until_said("told: allow")


async def test_asks_lists_what_is_open_and_how_the_last_ones_ended(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asks)) as rig:
        await rig.channel.say("/asks")
        await rig.until_said("No questions or approvals yet.")
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await rig.channel.say("/asks")
        assert f"`{ask.id}` Puppet wants to run make, 1" in await rig.until_said("Open:")
        await rig.channel.say(f"/show {ask.id}")
        details = await rig.until_said("SHA-256")
        assert "open" not in details.lower(), "the message stays when the ask is settled"
        await rig.channel.answer(ask, "deny", text="not today")
        await rig.until_ended()
        await rig.channel.say("hello", "elsewhere", private=False, author=MEMBER)
        await rig.channel.say("/asks", "elsewhere", private=False)
        await rig.until_true(lambda: "No questions or approvals yet." in rig.said("elsewhere"))
        await rig.channel.say(f"/show {ask.id}")
        shown = await rig.until_said("Ran: no.")
        assert "Denied by Person: make. Reason: not today." in shown
        await rig.channel.say("/asks")
        await rig.until_said(f"`{ask.id}` Denied by Person: make. Reason: not today")


async def test_an_owner_brings_an_open_ask_to_their_phone_with_asks(tmp_path: Path) -> None:
    approvals = {"ordinary": Approvers(route="here"), "destructive": Approvers(route="here")}
    async with open_rig(tmp_path, PuppetEngine(echo), people=PEOPLE, approvals=approvals) as rig:
        await pair(rig)
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await rig.channel.say("/asks", "admins-own", author=ADMIN)
        await rig.until_true(lambda: "No questions or approvals yet." in rig.said("admins-own"))
        await rig.channel.say("/asks", "phone", author=ALICE)
        assert "From Person's memory chat." in await sent_to_phone(rig)
        await rig.channel.say(f"/show {ask.id}", "phone", author=ALICE)
        await rig.until_true(lambda: any("SHA-256" in text for text in rig.said("phone")))
        assert (await rig.channel.say("yes", "phone", author=ALICE)).text == "Allowed by Alice: make."
        await rig.until_said("told: allow")


async def test_a_line_for_the_engine_takes_no_note_along(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo)) as rig:
        await rig.channel.say("one")
        (turn,) = await rig.until_ended()
        await rig.store.write(
            lambda tx: put_follow_up(
                tx,
                rig.ports.ids,
                turn,
                key="n",
                heading="late",
                text="it is late",
                at=turn.created_at,
                starts=False,
            )
        )
        line = "/tool x {}"
        await rig.gateway.desk.accept(
            InboundMessage(
                rig.channel.address(),
                PERSON,
                "t",
                "",
                private=True,
                file_text=line,
                alone=True,
                engine_line=True,
            )
        )
        await rig.until_ended(2)
        await rig.channel.say("two")
        await rig.until_ended(3)
        _, called, last = (strings.prompt for strings in rig.engine.turns)
        assert (called.text, called.engine_line) == (line, True)
        assert "it is late" in last.text
