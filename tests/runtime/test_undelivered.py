"""An answer whose place is gone reaches somebody: whoever asked, or an owner."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.mailing import greeting
from tests.runtime.rig import MEMBER, open_rig

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, MessageRef, Part


class DeadPlace(MemoryChannel):
    """Refuses whatever goes to the places in `dead`."""

    dead: tuple[str, ...] = ("group",)

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.place in self.dead:
            raise Rejected("the topic is gone")
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
