"""The end of a storm is noticed by what gets through, and not after half an hour: a little at first, and never in a hot loop."""

from __future__ import annotations

from itertools import count
from pathlib import Path

from tests.runtime.mailing import say_in
from tests.runtime.puppet import PuppetEngine, until_interrupted
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig

from pilothouse.channels.memory import MEMORY, MemoryChannel, visible_text
from pilothouse.core.channel import ChannelHealth
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import Unconfirmed
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import AGAIN_MARK, Address, Content, MessageRef, Part, conversation_id
from pilothouse.core.queue import CHANGES, NEVER, QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.clock import new_id
from pilothouse.runtime.delivery.retry import EACH_WAKES
from pilothouse.runtime.delivery.undelivered import word_about
from pilothouse.runtime.outbox import say
from pilothouse.testing.clock import FakeClock

SLOW = {"retry_first_s": 2.0, "doubt_cap_s": 1800.0, "poll_s": 3600.0}
DEEP = 7
"""Sends after which the next pause is minutes long."""


class Weather(MemoryChannel):
    """Of what is sent to the places in `stormy` nobody learns what became of it, and it is not shown."""

    def __init__(self, *stormy: str) -> None:
        numbers = count(1)
        super().__init__(native_ids=lambda: f"w{next(numbers)}")
        self.stormy = set(stormy)
        self.passes = ""
        """What begins so arrives also in a storm."""
        self.tried: list[tuple[str, str]] = []

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        self.tried.append((address.place, visible_text(part)))
        if address.place in self.stormy and not (self.passes and part.text.startswith(self.passes)):
            raise Unconfirmed("502")
        return await super().send(address, part)

    def tries(self, place: str, text: str) -> int:
        return sum(one[0] == place and one[1].startswith(text) for one in self.tried)


def place_of(name: str) -> ConversationId:
    return conversation_id(Address(MEMORY, name))


def heads(tx: Tx, place: str) -> list[QueueRow]:
    """What is said first in a place, if it is not being sent."""
    said = [row for row in tx.outbox.unfinished(place_of(place)) if row.kind not in CHANGES]
    return [row for row in said[:1] if row.status == "queued"]


def waiting(tx: Tx, place: str, now: float) -> QueueRow | None:
    """The head of a place, once it was tried in vain and the word about it too."""
    head = next(iter(heads(tx, place)), None)
    if head is None or head.ready_at <= now:
        return None
    word = word_about(tx, head)
    is_on_its_way = word is not None and word.status in ("queued", "claimed") and word.ready_at <= now
    return None if is_on_its_way else head


async def until_waiting(rig: Rig, clock: FakeClock, *places: str) -> list[QueueRow]:
    def unit(tx: Tx) -> list[QueueRow] | None:
        heads = [waiting(tx, place, clock.now()) for place in places]
        return [head for head in heads if head is not None] if all(heads) else None

    return await rig.until(unit)


async def suffer(rig: Rig, clock: FakeClock, *places: str, sends: int = DEEP) -> list[QueueRow]:
    """Each of these places has something in doubt that was sent so often, and waits for minutes."""
    for _ in range(sends - 1):
        rows = await until_waiting(rig, clock, *places)
        await clock.advance(max(row.ready_at for row in rows) - clock.now())
        rig.poke()
    return await until_waiting(rig, clock, *places)


async def post(rig: Rig, text: str, *places: str) -> None:
    await rig.store.write(lambda tx: [say_in(tx, text, place) for place in places])
    rig.poke()


def woken(rig: Rig) -> list[object]:
    return [fields["message_id"] for event, fields in rig.logged if event == "message.woken"]


def names(number: int) -> list[str]:
    return [f"room{n}" for n in range(number)]


async def test_the_first_message_that_gets_through_brings_all_that_waits(tmp_path: Path) -> None:
    clock, rooms = FakeClock(), names(9)
    channel = Weather(*rooms)
    async with open_rig(tmp_path, None, channel, clock=clock, **SLOW) as rig:
        await post(rig, "answer", *rooms)
        rows = await suffer(rig, clock, *rooms)
        assert min(row.ready_at for row in rows) - clock.now() > 60
        channel.stormy.clear()
        await post(rig, "elsewhere", "other")
        await rig.until_idle()
        assert all(rig.said(room)[0] == f"answer\n\n{AGAIN_MARK}" for room in rooms)
        assert all(channel.tries(room, "answer") == DEEP + 1 for room in rooms)


async def test_what_waits_behind_a_change_is_brought_too(tmp_path: Path) -> None:
    clock, channel = FakeClock(), Weather("room")
    async with open_rig(tmp_path, None, channel, clock=clock, **SLOW) as rig:
        await rig.store.write(lambda tx: change_later(tx, "room"))
        await post(rig, "answer", "room")
        await suffer(rig, clock, "room")
        channel.stormy.clear()
        await post(rig, "elsewhere", "other")
        await rig.until_said(f"answer\n\n{AGAIN_MARK}")


async def test_one_that_slips_through_a_storm_wakes_few_and_answers_first(tmp_path: Path) -> None:
    clock, rooms = FakeClock(), names(5)
    channel = Weather(*rooms)
    async with open_rig(tmp_path, None, channel, clock=clock, **SLOW) as rig:
        await post(rig, "notice", *rooms[:-EACH_WAKES])
        for room in rooms[-EACH_WAKES:]:
            await rig.store.write(lambda tx, room=room: answer_in(tx, room))
        before = {row.id: row for row in await suffer(rig, clock, *rooms)}
        await post(rig, "elsewhere", "other")
        await rig.until_true(lambda: len(woken(rig)) == EACH_WAKES)
        await rig.until_true(lambda: all(channel.tries(room, "answer") == DEEP + 1 for room in rooms[3:]))
        after = {row.id: row for row in await until_waiting(rig, clock, *rooms)}
        for row in before.values():
            is_answer = row.kind == "answer"
            assert (row.id in woken(rig)) is is_answer
            assert (after[row.id].ready_at > row.ready_at) is is_answer, "its own pause grows on"


async def test_a_place_that_stays_broken_is_not_tried_in_a_hot_loop(tmp_path: Path) -> None:
    clock, channel = FakeClock(), Weather("broken")
    async with open_rig(tmp_path, None, channel, clock=clock, **SLOW) as rig:
        await post(rig, "answer", "broken")
        await suffer(rig, clock, "broken")
        for number in range(60):  # a minute, in which others talk without a pause
            await post(rig, f"elsewhere {number}", "other")
            await rig.until_said(f"elsewhere {number}")
            await clock.advance(1.0)
            rig.poke()
            await rig.until(lambda tx: any(row.ready_at > clock.now() for row in heads(tx, "broken")))
        assert DEEP + 2 <= channel.tries("broken", "answer") <= DEEP + 4
        channel.stormy.clear()
        await post(rig, "at last", "other")
        await rig.until_said("at last")
        await clock.advance(300.0)
        rig.poke()
        await rig.until_idle()
        assert rig.said("broken")[0] == f"answer\n\n{AGAIN_MARK}"


async def test_a_storm_is_over_also_for_what_a_killed_process_left(tmp_path: Path) -> None:
    clock, channel = FakeClock(), Weather("main")
    async with open_rig(tmp_path, None, channel, clock=clock, name="first", **SLOW) as rig:
        await post(rig, "answer", "main")
        await suffer(rig, clock, "main")
        rig.crash()
    channel.stormy.clear()
    async with open_rig(
        tmp_path, None, channel, clock=clock, name="second", alive=only_alive("second"), **SLOW
    ) as rig:
        await clock.advance(1.0)  # what was ready when we began may be what it died of
        await post(rig, "elsewhere", "other")
        await rig.until_idle()
        assert rig.said()[0] == f"answer\n\n{AGAIN_MARK}"


async def test_where_the_word_about_it_arrived_a_message_waits_out_its_own_pauses(tmp_path: Path) -> None:
    """It is near to being given up: that must not happen sooner because others talk."""
    clock, channel = FakeClock(), Weather("main", "room")
    channel.passes = "A message could not be confirmed"
    async with open_rig(tmp_path, None, channel, clock=clock, **SLOW) as rig:
        await post(rig, "odd", "main")
        (before,) = await suffer(rig, clock, "main")
        channel.passes = ""
        await post(rig, "answer", "room")
        await suffer(rig, clock, "room", sends=4)
        (before,) = await until_waiting(rig, clock, "main")
        channel.stormy.discard("room")
        tried = channel.tries("main", "odd")
        await post(rig, "elsewhere", "other")
        await rig.until_said("answer")
        assert channel.tries("main", "odd") == tried
        assert (await until_waiting(rig, clock, "main"))[0].ready_at == before.ready_at


async def test_progress_that_is_shown_brings_what_waits_there(tmp_path: Path) -> None:
    clock, channel = FakeClock(), Weather("main")
    async with open_rig(
        tmp_path, PuppetEngine(until_interrupted), channel, clock=clock, first_view_s=2.0, **SLOW
    ) as rig:
        await post(rig, "answer", "main")
        await suffer(rig, clock, "main")
        channel.stormy.clear()
        await rig.channel.say("go on")
        await rig.until_live(MAIN, "running")
        await clock.advance(2.5)
        rig.poke()
        await rig.until_said(f"answer\n\n{AGAIN_MARK}")


class Heard(Weather):
    trouble = ""

    def __init__(self, clock: FakeClock, *stormy: str) -> None:
        super().__init__(*stormy)
        self.clock = clock

    def health(self) -> ChannelHealth:
        return ChannelHealth(self.clock.now(), self.trouble)


async def test_a_channel_that_is_well_again_brings_what_waits(tmp_path: Path) -> None:
    clock = FakeClock()
    channel = Heard(clock, "main")
    channel.trouble = "It cannot be reached."
    async with open_rig(tmp_path, None, channel, clock=clock, **SLOW) as rig:
        await post(rig, "answer", "main")
        (row,) = await suffer(rig, clock, "main")
        assert row.ready_at - clock.now() > 60
        channel.stormy.clear()
        channel.trouble = ""
        await clock.advance(6.0)
        await rig.until_said(f"answer\n\n{AGAIN_MARK}")


def answer_in(tx: Tx, place: str) -> None:
    say_in(tx, "first", place)
    first = next(row for row in tx.outbox.unfinished(place_of(place)))
    tx.outbox.withdraw(first.id, 1.0, "only to have the place")
    say(tx, new_id, place_of(place), Content("answer", "answer"), key=f"answer:{place}", at=1.0)


def change_later(tx: Tx, place: str) -> None:
    """Progress that is not taken away today."""
    id = place_of(place)
    tx.conversations.ensure(Conversation(id, Address(MEMORY, place), 1.0))
    tx.outbox.put(
        id=MessageId("view"),
        key="view",
        lane=id,
        conversation_id=id,
        kind="view",
        body=b"{}",
        at=1.0,
        ready_at=NEVER,
    )
