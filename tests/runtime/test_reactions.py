"""A reaction starts a turn where its channel sends it as one; as a note it waits for the next message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MEMBER, STRANGER, Rig, open_rig
from tests.runtime.test_approvals import GRANTED

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Receipt
from pilothouse.core.ids import AskId
from pilothouse.core.message import Author, InboundMessage
from pilothouse.core.people import Grant


async def react(rig: Rig, author: Author = PERSON, native_id: str = "reaction:1", **fields: Any) -> Receipt:
    message = InboundMessage(
        rig.channel.address(), author, native_id, "They reacted with 👍.", kind="reaction", **fields
    )
    return await rig.gateway.desk.accept(message)


async def ask_for_a_colour(strings: Strings) -> None:
    await strings.start()
    decision = await strings.ask(Ask(AskId("q"), "question", "Which colour?", free_text=True))
    await strings.end(f"told: {decision.text}")


async def test_a_reaction_starts_a_turn_that_says_why(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert (await react(rig, quoted="Shall I deploy?")).state == "queued"
        (turn,) = await rig.until_ended()
        assert turn.cause == "reaction"
        assert turn.prompt.authors == (PERSON.id,)
        assert "<reaction" in turn.prompt.text
        assert "<quoted>Shall I deploy?</quoted>" in turn.prompt.text


async def test_the_same_reaction_twice_is_one(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await react(rig)
        assert (await react(rig)).state == "duplicate"
        await rig.until_ended()
        await rig.until_idle()
        assert len(rig.engine.turns) == 1


async def test_a_note_about_a_reaction_starts_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        note = InboundMessage(rig.channel.address(), PERSON, "n", "reacted with 👍", kind="system")
        assert "Noted" in (await rig.gateway.desk.accept(note)).text
        await rig.channel.say("go on")
        (turn,) = await rig.until_ended()
        assert turn.cause == "message"
        assert "reacted with 👍" in turn.prompt.text


async def test_a_stranger_starts_nothing_with_a_reaction(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert (await react(rig, STRANGER)).state == "refused"
        await rig.until_idle()
        assert not rig.engine.turns


async def test_a_reaction_answers_no_question(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(ask_for_a_colour, echo)) as rig:
        await rig.channel.say("go")
        await rig.until_asked()
        assert "(/cancel drops it)" in (await react(rig)).text
        await rig.channel.say("blue")
        await rig.until_said("told: blue")
        await rig.until_ended(2)


async def test_whoever_was_revoked_starts_nothing_with_a_reaction_that_waits(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(ask_for_a_colour, echo)) as rig:
        await rig.store.write(lambda tx: tx.people.grant(Grant(GRANTED.id, "member")))
        await rig.channel.say("go")
        await rig.until_asked()
        await react(rig, GRANTED)
        await rig.store.write(lambda tx: tx.people.revoke(GRANTED.id))
        await rig.channel.say("blue")
        await rig.until_said("A message from Granted was dropped")
        await rig.until_idle()
        assert len(rig.engine.turns) == 1


async def test_an_owners_reaction_makes_nobody_elses_words_an_owners(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await react(rig, quoted="whatever a stranger wrote")
        await rig.until_ended()
        await rig.channel.say("mine", author=PERSON)
        await rig.until_ended(2)
        assert [strings.prompt.by_owner for strings in rig.engine.turns] == [False, True]


async def test_a_reaction_goes_on_with_the_session_that_said_what_it_is_about(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("one", author=MEMBER)
        await rig.until_ended()
        await rig.until_idle()
        said = next(posted for posted in rig.channel.sent if posted.part.data.get("kind") != "view")
        assert "you said: one" in said.text
        await rig.channel.say("/new")
        await rig.channel.say("two")
        await rig.until_ended(2)
        await react(rig, reply_to=said.ref.native_id)
        first, second, third = await rig.until_ended(3)
        assert third.session_id == first.session_id != second.session_id
