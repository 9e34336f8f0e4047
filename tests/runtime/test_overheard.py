"""What is said to others where several people talk: an answer if its sender was asked something there, else nothing."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from tests.runtime.puppet import Play, PuppetEngine, Strings, echo
from tests.runtime.rig import ADMIN, MEMBER, STRANGER, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, Option
from pilothouse.core.channel import Receipt
from pilothouse.core.ids import AskId, BlobHash
from pilothouse.core.message import Attachment, Author, InboundMessage, conversation_id, inbox_key

MAKE = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})
NAME = Ask(AskId("q"), "question", "What name?", free_text=True)
COLOUR = Ask(AskId("q"), "question", "Which colour?", options=(Option("r", "red"), Option("b", "blue")))
NOTHING = Receipt("refused")

_numbers = count(1)


def asking(ask: Ask) -> Play:
    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(ask)
        await strings.end(f"told: {decision.verdict} {decision.text}{''.join(decision.options)}")

    return play


async def overhear(rig: Rig, text: str, author: Author, native_id: str = "", sent_at: float = 0.0) -> Receipt:
    id = native_id or f"overheard-{next(_numbers)}"
    return await rig.gateway.desk.accept(
        InboundMessage(rig.channel.address(), author, id, text, overheard=True, sent_at=sent_at)
    )


async def test_only_whom_a_question_was_put_to_answers_it_by_the_way(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asking(NAME), echo)) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        for other in (PERSON, ADMIN, STRANGER):
            assert await overhear(rig, "lunch?", other) == NOTHING
        assert await rig.audited("sender.refused") == [], "nobody is met who did not speak to us"
        taken = await overhear(rig, "Gannet", MEMBER, "n1")
        assert (taken.state, taken.text) == ("queued", "Got it.")
        await rig.until_said("told: answer Gannet")
        assert await overhear(rig, "Gannet", MEMBER, "n1") == NOTHING, "a repeat is no second answer"
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.decision is not None
        assert row.decision.by == MEMBER.id
        assert len(await rig.turns()) == 1


async def test_the_reason_for_a_no_is_the_deniers_alone(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asking(MAKE))) as rig:
        await rig.channel.say("go", author=MEMBER)
        ask = await rig.until_asked()
        assert await overhear(rig, "hm", ADMIN) == NOTHING, "words allow and deny nothing"
        await rig.channel.answer(ask, "deny", author=ADMIN, reason_wanted=True)
        await rig.until_said("Why?")
        assert await overhear(rig, "what is make?", MEMBER) == NOTHING
        assert (await overhear(rig, "use ninja", ADMIN)).text == "Got it."
        await rig.until_said("told: deny use ninja")


async def test_where_nothing_is_asked_nothing_is_kept(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo)) as rig:
        assert await overhear(rig, "lunch?", MEMBER, "n1") == NOTHING
        key = inbox_key(conversation_id(rig.channel.address()), "n1")
        assert await rig.store.read(lambda tx: tx.inbox.by_key(key)) is None
        assert await rig.turns() == []


async def test_a_file_sent_to_others_is_no_answer_and_is_not_kept(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asking(NAME))) as rig:
        await rig.channel.say("go", author=MEMBER)
        await rig.until_asked()
        file = Attachment("plan.txt", "text/plain", 1, BlobHash("0" * 64))
        address = rig.channel.address()
        said = InboundMessage(address, MEMBER, "n1", "Gannet", attachments=(file,), overheard=True)
        assert await rig.gateway.desk.accept(said) == NOTHING
        key = inbox_key(conversation_id(address), "n1")
        assert await rig.store.read(lambda tx: tx.inbox.by_key(key)) is None


@pytest.mark.parametrize("said", ["2", "Blue", "b"])
async def test_where_options_are_asked_for_only_one_of_them_is_an_answer(tmp_path: Path, said: str) -> None:
    async with open_rig(tmp_path, PuppetEngine(asking(COLOUR))) as rig:
        await rig.channel.say("go", author=MEMBER)
        await rig.until_asked()
        assert await overhear(rig, "which was it again?", MEMBER) == NOTHING
        assert (await overhear(rig, said, MEMBER)).text == "Got it."
        await rig.until_said("told: answer b")


async def test_words_from_before_a_stop_answer_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(asking(NAME))) as rig:
        await rig.channel.say("go", author=MEMBER)
        await rig.until_asked()
        place = conversation_id(rig.channel.address())
        now = rig.ports.clock.now()
        await rig.store.write(lambda tx: tx.set_fact(f"stopped:{place}", str(now)))
        assert await overhear(rig, "Gannet", MEMBER, sent_at=now - 1) == NOTHING
        assert (await overhear(rig, "Gannet", MEMBER, sent_at=now + 1)).state == "queued"
