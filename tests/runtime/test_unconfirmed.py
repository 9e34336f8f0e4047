"""Messages that a platform did not confirm: no outage loses one, none is doubled often, and each repeat is marked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.runtime.mail import answering, end_of, greeting, postponed, say_in
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig

from pilothouse.channels.memory import MemoryChannel, visible_text
from pilothouse.core.channel import ChannelHealth
from pilothouse.core.errors import Rejected, TryLater, Unconfirmed
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import AGAIN_MARK, Address, MessageRef, Part
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.channel_health import CHECK_EVERY_S
from pilothouse.runtime.delivery.undelivered import MAX_SENDS, OWN_FAULT_SENDS, delivery_notice
from pilothouse.testing.clock import FakeClock


class StormyChannel(MemoryChannel):
    """While `storm` is set nobody learns what became of what is sent, and it is not shown. It hits what begins with
    `about`, anywhere but in the place `other`. Whatever is sent to `gone` is refused."""

    def __init__(self, about: str = "") -> None:
        super().__init__()
        self.storm = True
        self.about = about
        self.tried: list[str] = []

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.place == "other":
            return await super().send(address, part)
        if address.place == "gone":
            raise Rejected("it is gone")
        self.tried.append(visible_text(part))
        if self.storm and part.text.startswith(self.about):
            raise Unconfirmed("502")
        return await super().send(address, part)


class TroubledChannel(StormyChannel):
    """A stormy one that says so itself, until `trouble` is over."""

    trouble = "It cannot be reached."

    def __init__(self, clock: FakeClock) -> None:
        super().__init__()
        self.clock = clock

    def health(self) -> ChannelHealth:
        return ChannelHealth(self.clock.now(), self.trouble)


HOUR = 36.0
CALM = {"retry_first_s": 0.02, "doubt_cap_s": HOUR / 12, "poll_s": 3600.0, "edit_every_s": 60.0}
"""The delivery as it is, but a hundred times as fast: others wake up too, and a day of theirs is long."""


LONG_PAUSES = {"retry_first_s": 2.0, "poll_s": 3600.0}


async def weather(rig: Rig, clock: FakeClock, over: Callable[[], bool], place: ConversationId = MAIN) -> None:
    """Time passes, from try to try, until it is over."""

    def waits(tx: Tx) -> QueueRow | None:
        now, rows = clock.now(), tx.outbox.unfinished(place)
        if not rows or rows[0].status != "queued" or rows[0].ready_at <= now:
            return None
        word = delivery_notice(tx, rows[0])
        return None if word is not None and word.status != "done" and word.ready_at <= now else rows[0]

    while not over():
        found = await rig.until(lambda tx: over() or waits(tx))
        if isinstance(found, QueueRow):
            await clock.advance(found.ready_at - clock.now())
            rig.poke()


def hellos(channel: StormyChannel) -> int:
    return sum(text.startswith("hello") for text in channel.tried)


async def until_a_long_pause(rig: Rig, clock: FakeClock) -> QueueRow:
    """A message was sent seven times and not confirmed; it waits for its next try."""
    channel = rig.channel
    assert isinstance(channel, StormyChannel)
    await rig.store.write(lambda tx: say_in(tx, "hello"))
    rig.poke()
    await weather(rig, clock, lambda: hellos(channel) == 7)
    return await rig.until(lambda tx: postponed(tx, clock.now()))


async def until_looked(rig: Rig) -> None:
    """Delivery has looked at all that waits. Nothing got through meanwhile: that would be news."""
    gone = ConversationId("memory:gone")
    await rig.store.write(lambda tx: say_in(tx, "is anybody there?", "gone"))
    rig.poke()
    await rig.until(lambda tx: not tx.outbox.unfinished(gone))


async def test_a_storm_of_hours_loses_no_answer_and_keeps_the_order(tmp_path: Path) -> None:
    clock, channel = FakeClock(), StormyChannel()
    async with open_rig(tmp_path, None, channel, clock=clock, **CALM) as rig:
        await rig.store.write(lambda tx: (say_in(tx, "first"), say_in(tx, "second")))
        over_at = clock.now() + 3 * HOUR
        rig.poke()
        await weather(rig, clock, lambda: clock.now() > over_at)
        assert rig.said() == []
        assert len([text for text in channel.tried if text.startswith("first")]) < 50, "the pauses grow"
        await rig.store.write(lambda tx: say_in(tx, "elsewhere", "other"))
        rig.poke()
        await rig.until_true(lambda: rig.said("other"))
        channel.storm = False
        await weather(rig, clock, lambda: any(text.startswith("first") for text in rig.said()))
        await rig.until_idle()
        answers = [text for text in rig.said() if "could not be confirmed" not in text]
        assert answers == [f"first\n\n{AGAIN_MARK}", "second"], "what stood behind was not even tried"


async def test_a_storm_that_outlasts_a_restart_loses_nothing_and_its_pauses_go_on(tmp_path: Path) -> None:
    clock, channel = FakeClock(), StormyChannel()
    async with open_rig(tmp_path, None, channel, clock=clock, name="first", **CALM) as rig:
        await rig.store.write(lambda tx: say_in(tx, "hello"))
        rig.poke()
        await weather(rig, clock, lambda: len(channel.tried) > 8)
        waiting = await rig.until(lambda tx: postponed(tx, clock.now()))
        rig.crash()
    tried = len(channel.tried)
    async with open_rig(
        tmp_path, None, channel, clock=clock, name="second", alive=only_alive("second"), **CALM
    ) as rig:
        await until_looked(rig)
        assert len(channel.tried) == tried, "it waits as long as it would have"
        channel.storm = False
        await clock.advance(waiting.ready_at - clock.now())
        rig.poke()
        await rig.until_idle()
        assert rig.said() == [f"hello\n\n{AGAIN_MARK}"]


async def test_a_message_that_alone_is_never_confirmed_is_given_up_and_told(tmp_path: Path) -> None:
    channel = StormyChannel("the odd one")
    async with open_rig(tmp_path, answering("the odd one"), channel, edit_every_s=60) as rig:
        await rig.channel.say("go")
        told = await rig.until_said("could not be confirmed as delivered after 3 tries")
        assert "/show turn-" in told
        await rig.until_idle()
        odd = [text for text in channel.tried if text.startswith("the odd one")]
        assert [AGAIN_MARK in text for text in odd] == [False] + [True] * (OWN_FAULT_SENDS - 1)
        (turn,) = await rig.turns()
        assert (await rig.store.read(lambda tx: end_of(tx, turn.id))).status == "failed"
        await rig.channel.say("next")
        await rig.until_ended(2)


async def test_what_arrives_after_all_takes_back_the_word_about_it(tmp_path: Path) -> None:
    channel = StormyChannel()
    async with open_rig(tmp_path, answering("hello"), channel, edit_every_s=60) as rig:
        await rig.channel.say("go")
        await rig.until_true(lambda: any("could not be confirmed" in text for text in channel.tried))
        channel.storm = False
        await rig.until_idle()
        assert f"hello\n\n{AGAIN_MARK}" in rig.said()
        (turn,) = await rig.turns()
        assert (await rig.store.read(lambda tx: end_of(tx, turn.id))).status == "done"


async def test_a_mark_stays_when_a_platform_asks_for_a_pause_in_between(tmp_path: Path) -> None:
    class Channel(StormyChannel):
        # pyrefly: ignore [missing-override-decorator]
        async def send(self, address: Address, part: Part) -> MessageRef:
            if len(self.tried) == 1:
                self.tried.append("")
                self.storm = False
                raise TryLater(0.01)
            return await super().send(address, part)

    async with open_rig(tmp_path, None, Channel()) as rig:
        await rig.store.write(lambda tx: say_in(tx, "hello"))
        rig.poke()
        await rig.until_said("hello")
        assert rig.said() == [f"hello\n\n{AGAIN_MARK}"]


async def test_a_channel_that_is_well_again_sends_what_was_not_confirmed(tmp_path: Path) -> None:
    clock = FakeClock()
    channel = TroubledChannel(clock)
    async with open_rig(tmp_path, None, channel, clock=clock, **LONG_PAUSES) as rig:
        row = await until_a_long_pause(rig, clock)
        assert row.ready_at - clock.now() > 60
        channel.storm = False
        channel.trouble = ""
        await clock.advance(CHECK_EVERY_S)
        await rig.until_true(lambda: f"hello\n\n{AGAIN_MARK}" in rig.said())


async def test_a_channel_that_was_well_again_for_a_moment_costs_one_more_try(tmp_path: Path) -> None:
    clock = FakeClock()
    channel = TroubledChannel(clock)
    async with open_rig(tmp_path, None, channel, clock=clock, **LONG_PAUSES) as rig:
        before = await until_a_long_pause(rig, clock)
        tried = hellos(channel)
        channel.trouble = ""
        await clock.advance(CHECK_EVERY_S)
        await rig.until_true(lambda: hellos(channel) == tried + 1)
        row = await rig.until(lambda tx: postponed(tx, clock.now()))
        assert row.ready_at > before.ready_at, "its pause grows on"
        for _ in range(5):
            await clock.advance(CHECK_EVERY_S)
        await until_looked(rig)
        assert hellos(channel) == tried + 1


async def test_a_pause_that_the_platform_asked_for_is_kept_when_its_channel_is_well_again(
    tmp_path: Path,
) -> None:
    class Channel(TroubledChannel):
        # pyrefly: ignore [missing-override-decorator]
        async def send(self, address: Address, part: Part) -> MessageRef:
            if self.trouble and address.place == "main":
                raise TryLater(1000.0)
            return await super().send(address, part)

    clock = FakeClock()
    channel = Channel(clock)
    async with open_rig(tmp_path, None, channel, clock=clock, **LONG_PAUSES) as rig:
        await rig.store.write(lambda tx: say_in(tx, "hello"))
        rig.poke()
        await rig.until(lambda tx: postponed(tx, clock.now()))
        channel.trouble = ""
        await clock.advance(CHECK_EVERY_S)
        await rig.until_true(lambda: any(event == "channel.well_again" for event, _ in rig.logged))
        await until_looked(rig)
        assert channel.tried == []


async def test_what_stays_in_doubt_for_most_of_a_day_is_told_elsewhere(tmp_path: Path) -> None:
    """Nothing at all arrives in the place any more, not even the word about it."""
    clock, channel, place = FakeClock(), SilentPlace(), ConversationId("memory:group")
    async with open_rig(tmp_path, greeting(1, "hello"), channel, clock=clock, **CALM) as rig:
        await rig.channel.say("good morning", "home")
        await rig.until_said("you said: good morning")
        began_at = clock.now()
        await rig.channel.say("go", "group", private=False)
        await rig.until_ended(1, place)
        await weather(rig, clock, lambda: "Nothing reaches that place" in str(rig.said("home")), place)
        assert f"In {place}: " in rig.said("home")[-1]
        assert clock.now() - began_at > 12 * HOUR
        assert channel.tried <= 2 * MAX_SENDS
        await rig.until_idle()


class SilentPlace(MemoryChannel):
    """Nobody learns what becomes of what is sent to the place `group`."""

    tried = 0

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.place == "group":
            self.tried += 1
            raise Unconfirmed("502")
        return await super().send(address, part)
