"""Law 7: nobody is let in by default. A stranger hears one polite word a day, and nothing else happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.puppet import PuppetEngine, Strings, until_interrupted
from tests.runtime.rig import ADMIN, MAIN, MEMBER, STRANGER, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import AskId, ChannelId, ConversationId, UserId
from pilothouse.core.message import Address, Author, InboundMessage, MessageDeleted, MessageEdited
from pilothouse.core.people import People
from pilothouse.core.store import Tx
from pilothouse.runtime.admission import MAX_JOIN_ASKS
from pilothouse.testing.clock import FakeClock

DAY_S = 86_400.0


async def everything(rig: Rig) -> object:
    def unit(tx: Tx) -> object:
        return [
            tx.conversations.list(),
            tx.sessions.of(),
            tx.turns.of(),
            [tx.inbox.unfinished(place.id) for place in tx.conversations.list()],
            tx.asks.open_in(MAIN),
            [row.what for row in tx.audit.list() if row.who != STRANGER.id],
            tx.events.last_seq(MAIN),
            tx.people.everybody(),
        ]

    return await rig.store.read(unit)


async def test_law_7_a_stranger_is_refused_at_every_door_and_nothing_is_stored(tmp_path: Path) -> None:
    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))
        await strings.end("allowed")

    async with open_rig(tmp_path, PuppetEngine(ask), join_asks=False) as rig:
        await rig.channel.say("go", native_id="mine")
        asked = await rig.until_asked()
        before = await everything(rig)
        first = await rig.channel.say("let me in", author=STRANGER)
        assert (first.state, STRANGER.id in first.text) == ("refused", True)
        for text in ("let me in", "/status", "/stop", "/nonsense", "/etc/passwd", "/pair", "x" * 300_000):
            for place in ("main", "new-place"):
                receipt = await rig.channel.say(text, place, author=STRANGER)
                assert (receipt.state, receipt.text) == ("refused", ""), "a word a day is enough"
        assert (await rig.channel.change("mine", "stop", author=STRANGER)).state == "refused"
        assert (await rig.channel.withdraw("mine", author=STRANGER)).state == "refused"
        assert not (await rig.channel.answer(asked, "allow", author=STRANGER)).accepted
        with pytest.raises(PilothouseError):
            await rig.gateway.desk.query("turns", STRANGER)
        with pytest.raises(PilothouseError):
            await rig.gateway.desk.query("asks", STRANGER, conversation=MAIN)
        with pytest.raises(PilothouseError, match="may not"):
            await anext(rig.gateway.desk.follow(MAIN, 0, STRANGER))
        assert await everything(rig) == before
        await rig.audited_by(STRANGER, "ask.refused", "sender.refused")
        await rig.channel.answer(asked, "allow")
        await rig.until_said("allowed")


async def test_a_stranger_is_answered_once_a_day_even_across_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock, name="first") as rig:
        assert (await rig.channel.say("hello", author=STRANGER)).text
        assert not (await rig.channel.say("hello?", author=STRANGER)).text
    async with open_rig(tmp_path, clock=clock, name="second") as rig:
        assert not (await rig.channel.say("anybody?", author=STRANGER)).text
        clock.jump(DAY_S)
        assert (await rig.channel.say("hello again", author=STRANGER)).text
        assert not (await rig.channel.say("hello?", author=STRANGER)).text


async def test_where_nobody_is_listed_nobody_is_let_in(tmp_path: Path) -> None:
    async with open_rig(tmp_path, people=People()) as rig:
        assert (await rig.channel.say("hello")).state == "refused"
        assert (await rig.channel.say("/help")).state == "refused"
        assert await rig.turns() == []


async def test_only_its_sender_may_change_or_withdraw_a_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two", native_id="two")
        assert (await rig.channel.change("two", "three", author=MEMBER)).state == "refused"
        assert (await rig.channel.withdraw("two", author=MEMBER)).state == "refused"
        (row,) = await rig.store.read(lambda tx: tx.inbox.waiting(MAIN))
        assert b'"text":"two"' in bytes(row.body)
        assert "Only an admin" in await reply(rig, f"/cancel #{row.seq}", MEMBER)
        assert "Dropped" in await reply(rig, f"/cancel #{row.seq}", PERSON)


async def reply(rig: Rig, line: str, author: Author) -> str:
    receipt = await rig.channel.say(line, author=author)
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    return bytes(row.body).decode()


async def test_the_first_message_of_a_stranger_asks_the_owner_in_private_and_a_yes_lets_them_in(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello", "office")
        told = await rig.channel.say("may I?", "lobby", author=STRANGER)
        assert "owner has been asked" in told.text
        ask = await rig.until_asked("Let Stranger", ConversationId("memory:office"))
        assert rig.said("lobby") == []
        assert not (await rig.channel.answer(ask, "allow", author=STRANGER)).accepted, (
            "nobody lets themselves in"
        )
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted, "that is an owner's"
        assert (await rig.channel.say("and now?", "lobby", author=STRANGER)).state == "refused"
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said("You are let in.")
        await rig.channel.say("thank you", "lobby", author=STRANGER)
        await rig.until_said("you said: thank you")
        (grant,) = await rig.store.read(lambda tx: tx.people.of(STRANGER.id))
        assert (grant.role, grant.by) == ("member", PERSON.id)


async def test_an_answered_question_stands_once_in_each_chat_it_was_asked_in(tmp_path: Path) -> None:
    people = People({PERSON.id: "owner", ADMIN.id: "owner"})
    async with open_rig(tmp_path, people=people) as rig:
        await rig.channel.say("hello", "office")
        await rig.channel.say("hello", "study", author=ADMIN)
        await rig.channel.say("may I?", "lobby", author=STRANGER)
        ask = await rig.until_asked("Let Stranger", ConversationId("memory:study"))
        for place in ("office", "study"):  # a place that never saw the question is not told how it ended
            await rig.until(
                lambda tx, place=place: not tx.outbox.unfinished(ConversationId(f"memory:{place}"))
            )
        assert (await rig.channel.answer(ask, "allow")).accepted

        def is_told(tx: Tx) -> bool:
            (row,) = [row for row in tx.asks.newest(states=("answered",)) if row.topic == "join"]
            keys = (f"ask:{ask.id}:settled", *(f"ask:{ask.id}:settled:{place}" for place in row.shown_in))
            rows = [tx.outbox.by_key(key) for key in keys]
            return len(rows) == 2 and all(row is not None and row.ended_at for row in rows)

        await rig.until(is_told)
        for place in ("office", "study"):
            about = [text for text in rig.said(place) if "Let Stranger" in text]
            assert about == ["Allowed by Person: Let Stranger (memory:stranger) in as a member?"], place


async def test_a_question_that_was_answered_before_a_closed_terminal_showed_it_is_never_asked_there(
    tmp_path: Path,
) -> None:
    people = People({PERSON.id: "owner", ADMIN.id: "owner"})
    async with open_rig(tmp_path, people=people) as rig:
        terminal = Address(ChannelId("terminal"), "ada")
        await rig.gateway.desk.accept(InboundMessage(terminal, ADMIN, "1", "hello", private=True))
        await rig.channel.say("hello", "office")
        await rig.channel.say("may I?", "lobby", author=STRANGER)
        (row,) = await rig.store.read(lambda tx: tx.asks.open_about("join"))
        assert await waiting_in(rig, "terminal:ada", row.ask) == ["ask"]
        await rig.until_true(lambda: any("Let Stranger" in text for text in rig.said("office")))
        assert (await rig.channel.answer(row.ask, "allow")).accepted
        assert await waiting_in(rig, "terminal:ada", row.ask) == ["closed"]


async def waiting_in(rig: Rig, place: str, ask: Ask) -> list[str]:
    """What is still to be shown there about an ask."""
    rows = await rig.store.read(lambda tx: tx.outbox.unfinished(ConversationId(place)))
    return [row.kind for row in rows if row.key.startswith(f"ask:{ask.id}:")]


async def test_a_no_to_a_stranger_is_not_asked_again_for_a_month(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.channel.say("may I?", author=STRANGER)
        await rig.channel.answer(await rig.until_asked("Let Stranger"), "deny")
        for _ in range(3):
            clock.jump(DAY_S)
            assert "can let you in" in (await rig.channel.say("please", author=STRANGER)).text
        assert await rig.store.read(lambda tx: tx.asks.open_about("join")) == []
        assert (await rig.channel.say("so?", author=STRANGER)).state == "refused"


async def test_a_crowd_of_strangers_does_not_bury_an_owner_under_questions(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello")
        for number in range(MAX_JOIN_ASKS + 3):
            stranger = Author(UserId(f"memory:s{number}"), f"S{number}")
            assert (await rig.channel.say("hi", author=stranger)).text
        assert len(await rig.store.read(lambda tx: tx.asks.open_about("join"))) == MAX_JOIN_ASKS


async def test_an_owner_whose_chat_is_not_known_finds_the_question_in_the_list(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        told = (await rig.channel.say("may I?", author=STRANGER)).text
        assert "has been asked" not in told, "nobody was, in any chat"
        assert "run pilothouse pair on its machine and send the code" in told
        (row,) = await rig.store.read(lambda tx: tx.asks.newest())
        assert (row.topic, row.conversation_id) == ("join", "")
        answered = await rig.gateway.desk.answer(row.ask.id, row.ask.payload_hash, Decision("allow"), PERSON)
        assert answered.accepted
        await rig.until_said("You are let in.")


async def test_where_only_a_closed_terminal_was_asked_a_stranger_is_told_how_to_get_in(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path) as rig:
        desk, terminal = rig.gateway.desk, Address(ChannelId("terminal"), "ada")
        await desk.accept(InboundMessage(terminal, PERSON, "1", "hello", private=True))
        told = (await rig.channel.say("may I?", author=STRANGER)).text
        assert "has been asked" not in told
        assert "pilothouse pair" in told
        (row,) = await rig.store.read(lambda tx: tx.asks.newest())
        assert row.conversation_id == "terminal:ada", "it waits there all the same"


async def test_a_strangers_name_writes_no_lines_of_its_own(tmp_path: Path) -> None:
    sly = Author(UserId("memory:sly"), "Ann\n\nAsked because: the owner said so\n" + "x" * 500)
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("may I?", author=sly)
        (row,) = await rig.store.read(lambda tx: tx.asks.newest())
        assert "\n" not in row.ask.title
        assert len(row.ask.title) < 200
        assert sly.id in row.ask.title


async def test_a_bot_is_told_once_and_nobody_is_asked_about_it(tmp_path: Path) -> None:
    bot = Author(UserId("memory:bot"), "Bot", is_bot=True)
    async with open_rig(tmp_path) as rig:
        assert (await rig.channel.say("beep", author=bot)).text
        assert not (await rig.channel.say("beep", author=bot)).text
        assert await rig.store.read(lambda tx: tx.asks.newest()) == []


async def test_edits_and_deletions_of_strangers_are_silent(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        desk, place = rig.gateway.desk, rig.channel.address()
        assert (await desk.edited(MessageEdited(place, STRANGER, "1", "x"))).text == ""
        assert (await desk.deleted(MessageDeleted(place, STRANGER, "1"))).text == ""
        await desk.accept(InboundMessage(place, STRANGER, "2", "hello"))
        assert await rig.store.read(lambda tx: tx.conversations.list()) == []
