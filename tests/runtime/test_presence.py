"""Added to a place, or put out of it: a repeat is told once, and only what cannot arrive any more is dropped."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.runtime.rig import MAIN, MEMBER, STRANGER, Rig, open_rig

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.errors import TryLater
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, Content, MessageRef, Part, Presence, conversation_id
from pilothouse.core.store import Tx
from pilothouse.runtime.channel_status import removal_from
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.outbox import say

pytestmark = pytest.mark.anyio

HERE = Presence(MemoryChannel().address("lab"), MEMBER, "Lab", "1:member")
LAB = conversation_id(HERE.address)


async def wait_there(rig: Rig, *threads: str | None) -> list[ConversationId]:
    """Something that nobody sends before the far future waits in the lab, and in these threads of it."""
    later = rig.ports.clock.now() + 1_000_000

    def unit(tx: Tx) -> list[ConversationId]:
        places = [ensure_place(tx, msgspec.structs.replace(HERE.address, thread=one), 1.0) for one in threads]
        for place in places:
            say(tx, rig.ports.ids, place.id, Content("later"), key=f"later:{place.id}", at=1.0)
            row = tx.outbox.by_key(f"later:{place.id}")
            assert row is not None and tx.outbox.claim([row.id])
            assert tx.outbox.retry(row.id, later, "not yet")
        return [place.id for place in places]

    return await rig.store.write(unit)


async def waiting(rig: Rig, places: list[ConversationId]) -> list[int]:
    return await rig.store.read(lambda tx: [len(tx.outbox.unfinished(place)) for place in places])


async def test_whoever_may_talk_is_greeted_once_however_often_it_is_told(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        for _ in range(3):
            await rig.gateway.desk.arrived(HERE, "Hello, lab.")
        await rig.until_said("Hello, lab.")
        await rig.gateway.desk.arrived(msgspec.structs.replace(HERE, native_id="2:member"), "Hello again.")
        await rig.until_said("Hello again.")
        assert rig.said("lab") == ["Hello, lab.", "Hello again."]


async def test_a_stranger_is_not_greeted_and_the_owner_hears_once_a_day(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
        for n in range(3):
            here = msgspec.structs.replace(HERE, by=STRANGER, title=f"Lab {n}", native_id=str(n))
            await rig.gateway.desk.arrived(here, "Hello, lab.")
        await rig.until_said("added me to “Lab 0”")
        await rig.until_idle()
        assert sum("added me to" in text for text in rig.said()) == 1
        assert rig.said("lab") == []


async def test_what_waits_for_a_place_that_put_us_out_is_dropped_with_that_of_its_threads(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
        places = await wait_there(rig, None, "one", "two")
        assert await waiting(rig, places) == [1, 1, 1]
        await rig.gateway.desk.left(HERE)
        assert await waiting(rig, places) == [0, 0, 0]
        gone = await rig.store.read(lambda tx: (removal_from(tx, LAB), removal_from(tx, MAIN)))
        assert gone[0] is not None and gone[0].why == "Member removed us from “Lab”"
        assert gone[1] is None
        await rig.gateway.desk.arrived(HERE, "")
        assert await rig.store.read(lambda tx: removal_from(tx, LAB)) is None


class BusyLab(MemoryChannel):
    """Nothing is taken in the lab for a long time."""

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.place == "lab":
            raise TryLater(1_000_000)
        return await super().send(address, part)


async def test_of_an_answer_that_is_dropped_whoever_asked_hears_in_private(tmp_path: Path) -> None:
    async with open_rig(tmp_path, channel=BusyLab()) as rig:
        await rig.channel.say("good morning", "members", author=MEMBER)
        await rig.until_said("you said: good morning")
        await rig.channel.say("go", "lab", author=MEMBER, private=False)
        (turn,) = await rig.until_ended(1, LAB)
        row = await rig.until(lambda tx: next((r for r in tx.outbox.unfinished(LAB) if r.why), None))
        assert row.turn_id == turn.id
        await rig.gateway.desk.left(HERE)
        told = await rig.until_said("Member removed us from “Lab”")
        assert told in rig.said("members")
        assert f"/show {turn.id}" in told
        await rig.until_idle()


async def test_a_place_that_moved_loses_nothing_when_its_old_address_puts_us_out(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        places = await wait_there(rig, None)
        await rig.channel.move("lab", "laboratory")
        await rig.gateway.desk.left(HERE)
        assert await waiting(rig, places) == [1]
        assert await rig.store.read(lambda tx: removal_from(tx, LAB)) is None
