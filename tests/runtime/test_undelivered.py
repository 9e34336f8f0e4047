"""An answer whose place is gone reaches somebody: whoever asked, or an owner."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.mail import greeting
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, MEMBER, open_rig

from pilothouse.channels.memory import MEMORY, MemoryChannel
from pilothouse.core.ask import Ask
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.message import Address, MessageRef, Part, Presence

GROUP = ConversationId("memory:group")


class DeadPlace(MemoryChannel):
    """Refuses whatever goes to the places in `dead`."""

    dead: tuple[str, ...] = ("group",)

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.place in self.dead:
            raise Rejected("the topic is gone")
        return await super().send(address, part)


class NoQuestions(MemoryChannel):
    """Takes words, and no question."""

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.data.get("kind") == "ask":
            raise Rejected("no buttons here")
        return await super().send(address, part)


class BusyPlace(MemoryChannel):
    """Lets everything wait that goes to the group."""

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.place == "group":
            raise TryLater(1_000_000)
        return await super().send(address, part)


async def test_an_answer_whose_place_is_gone_is_told_to_whoever_asked_and_can_be_read_there(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, greeting(2, "the precious answer"), DeadPlace(), edit_every_s=60) as rig:
        await rig.channel.say("good morning", "members", author=MEMBER)
        await rig.channel.say("good evening", "owners")
        await rig.until_said("you said: good morning")
        await rig.until_said("you said: good evening")
        await rig.channel.say("go", "group", author=MEMBER, private=False)
        told = await rig.until_said("the topic is gone")
        await rig.until_idle()
        (turn,) = await rig.until_ended(1, ConversationId("memory:group"))
        assert told in rig.said("members")
        assert f"/show {turn.id}" in told
        assert "the topic is gone" not in str(rig.said("owners"))
        await rig.channel.say(f"/show {turn.id}", "members", author=MEMBER)
        await rig.until_true(lambda: rig.said("members")[-1] == "the precious answer")
        await rig.channel.say(f"/show {turn.id}", "owners")
        await rig.until_true(lambda: "Nothing here is called" in rig.said("owners")[-1])


@pytest.mark.parametrize("dead", [("group",), ("group", "members")])
async def test_an_owner_hears_of_an_answer_that_reaches_nobody_else(
    tmp_path: Path, dead: tuple[str, ...]
) -> None:
    channel = DeadPlace()
    channel.dead = dead
    async with open_rig(
        tmp_path, greeting(len(dead), "the precious answer"), channel, edit_every_s=60
    ) as rig:
        for place in dead[1:]:
            await rig.channel.say("good morning", place, author=MEMBER)
            await rig.until_ended(1, ConversationId(f"memory:{place}"))
        await rig.channel.say("good evening", "owners")
        await rig.until_said("you said: good evening")
        await rig.channel.say("go", "group", author=MEMBER, private=False)
        assert await rig.until_said("the topic is gone") in rig.said("owners")
        await rig.until_idle()


async def ask(strings: Strings) -> None:
    await strings.start()
    decision = await strings.ask(Ask(AskId("a"), "approval", "May I delete it?", {"command": "rm it"}))
    await strings.end(f"told: {decision.verdict}")


async def test_a_question_whose_place_is_gone_is_asked_in_private_of_those_who_may_answer_it(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo, ask), DeadPlace(), edit_every_s=60) as rig:
        await rig.channel.say("good evening", "owners")
        await rig.until_said("you said: good evening")
        await rig.channel.say("go", "group", author=MEMBER, private=False)
        told = await rig.until_said("May I delete it?")
        assert told in rig.said("owners")
        assert "Nothing reaches memory:group any more" in told
        assert "`pilothouse asks`" in told
        asked = await rig.until_asked(conversation=GROUP)
        await rig.channel.say(f"/show {asked.id}", "owners")
        await rig.until_true(lambda: "rm it" in rig.said("owners")[-1])
        await rig.channel.answer(asked, "allow")
        await rig.until_true(lambda: "Allowed by Person: " in str(rig.said("owners")))
        assert told not in rig.said("owners"), "its buttons are gone"
        (turn,) = await rig.until_ended(1, GROUP)
        assert turn.answer == "told: allow"
        await rig.until_idle()


async def test_a_question_that_a_place_refuses_is_told_there_with_the_way_to_answer_it(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(ask), NoQuestions(), edit_every_s=60) as rig:
        await rig.channel.say("go")
        told = await rig.until_said("It still waits for an answer")
        (asked,) = await rig.until(lambda tx: tx.asks.open_in(MAIN))
        assert f"/show {asked.ask.id}" in told
        assert "`pilothouse asks`" in told
        await rig.channel.say(f"/show {asked.ask.id}")
        await rig.until_true(lambda: "rm it" in rig.said()[-1])
        await rig.channel.say("/stop")


async def test_a_question_that_waited_for_a_place_that_put_us_out_is_asked_in_private(
    tmp_path: Path,
) -> None:
    here = Presence(Address(MEMORY, "group"), MEMBER, "Group", native_id="p1")
    async with open_rig(tmp_path, PuppetEngine(echo, ask), BusyPlace(), edit_every_s=60) as rig:
        await rig.channel.say("good evening", "owners")
        await rig.until_said("you said: good evening")
        await rig.channel.say("go", "group", author=MEMBER, private=False)
        await rig.until(lambda tx: next((r for r in tx.outbox.unfinished(GROUP) if r.why), None))
        await rig.gateway.desk.left(here)
        assert await rig.until_said("May I delete it?") in rig.said("owners")
        asked = await rig.until_asked(conversation=GROUP)
        await rig.channel.answer(asked, "deny")
        await rig.until_ended(1, GROUP)
