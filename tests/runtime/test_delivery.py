"""Delivery: in order, nothing twice without its mark, nothing lost in silence, nobody slowed by anybody else."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.runtime.mail import answering, end_of, postponed, say_in
from tests.runtime.puppet import PuppetEngine, echo
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig

from pilothouse.channels.memory import MEMORY, MemoryChannel
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import Rejected, Unconfirmed, WantsPlainer
from pilothouse.core.ids import ChannelId, ConversationId, MessageId
from pilothouse.core.message import AGAIN_MARK, Address, Content, MessageRef, Part, conversation_id
from pilothouse.core.queue import PartRow, notes_waitlist
from pilothouse.core.store import Tx
from pilothouse.core.text import moment
from pilothouse.runtime.channel_status import note_served
from pilothouse.runtime.conversations.places import ensure_place
from pilothouse.runtime.delivery.mail import LEFT_S
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import new_id
from pilothouse.testing.clock import FakeClock

LONG = "\n\n".join(f"paragraph {number} " + "x" * 80 for number in range(10))


async def parts_of_the_answer(rig: Rig) -> list[PartRow]:
    (turn,) = await rig.turns()
    return await rig.store.read(lambda tx: tx.outbox.parts(end_of(tx, turn.id).id))


async def test_a_long_answer_comes_in_parts_in_their_order(tmp_path: Path) -> None:
    async with open_rig(tmp_path, answering(LONG), MemoryChannel(part_limit=200)) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        await rig.until_idle()
        said = "\n\n".join(rig.said())
        assert len(rig.said()) > 4
        assert [said.index(f"paragraph {n} ") for n in range(10)] == sorted(
            said.index(f"paragraph {n} ") for n in range(10)
        )
        parts = await parts_of_the_answer(rig)
        assert {(part.state, part.sends) for part in parts} == {("sent", 1)}
        answers = [posted.ref for posted in rig.channel.sent if posted.parts[0].data.get("kind") != "view"]
        assert [part.ref for part in parts] == answers


async def test_try_later_is_honoured_and_does_not_count_as_a_send(tmp_path: Path) -> None:
    clock = FakeClock()
    channel = MemoryChannel(try_later=[30, 30, 30, 30])
    async with open_rig(tmp_path, answering("hello"), channel, clock=clock, edit_every_s=60) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        for _ in range(4):
            row = await rig.until(lambda tx: postponed(tx, clock.now()))
            assert row.ready_at == clock.now() + 30
            await clock.advance(29)
            rig.poke()
            assert rig.said() == []
            await clock.advance(1)
            rig.poke()
        await rig.until_said("hello")
        await rig.until_idle()
        assert rig.said() == ["hello"], "and without the mark: it surely was not there before"
        assert [(part.state, part.sends) for part in await parts_of_the_answer(rig)] == [("sent", 1)]


class PickyChannel(MemoryChannel):
    """Refuses whatever contains `bad`, for good."""

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if "bad" in part.text and "could not be delivered" not in part.text:
            raise Rejected("no bad words")
        return await super().send(address, part)


class NoFiles(MemoryChannel):
    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.attachments:
            raise Rejected("no files here")
        return await super().send(address, part)


async def test_of_a_rejected_file_that_came_without_words_its_name_is_told(tmp_path: Path) -> None:
    async with open_rig(tmp_path, channel=NoFiles()) as rig:
        await rig.channel.say("hello")

        def send(tx: Tx) -> None:
            file = tx.blobs.attach(b"%PDF", "report.pdf", "application/pdf", 1.0)
            say(tx, new_id, MAIN, Content("", "reply", (file,)), key="test:file", at=1.0)

        await rig.store.write(send)
        rig.poke()
        await rig.until_said("could not be delivered (no files here): report.pdf")


async def test_a_rejected_message_is_told_to_the_person_and_to_the_session(tmp_path: Path) -> None:
    async with open_rig(tmp_path, answering("something bad"), PickyChannel()) as rig:
        await rig.channel.say("go")
        told = await rig.until_said("could not be delivered (no bad words)")
        (turn,) = await rig.until_ended()
        assert turn.id in told, "/show brings it back"
        await rig.until_idle()
        (note,) = await rig.store.read(lambda tx: tx.inbox.waiting(notes_waitlist(MAIN)))
        assert note.kind == "system"
        rig.poke()
        await anyio.wait_all_tasks_blocked()
        assert len(rig.engine.turns) == 1, "a note starts no turn"
        await rig.channel.say("next")
        await rig.until_ended(2)
        prompt = rig.engine.turns[1].prompt.text
        assert "<system" in prompt
        assert "no bad words" in prompt
        assert "next" in prompt
        await rig.channel.say("third")
        await rig.until_ended(3)
        assert rig.engine.turns[2].prompt.text == "third", "it is told once"


async def test_any_number_of_notes_holds_up_no_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, answering("bad"), PickyChannel(), batch_limit=3) as rig:
        for number in range(6):
            await rig.channel.say("go", native_id=f"go-{number}")
            await rig.until_ended(number + 1)
            await rig.store.write(lambda tx, n=number: say_in(tx, f"bad {n}"))
            rig.poke()
        await rig.until_idle()
        rig.engine.plays[:] = [echo]
        await rig.channel.say("hello?")
        await rig.until_said("hello?")


async def test_where_everything_is_rejected_nothing_goes_round_in_circles(tmp_path: Path) -> None:
    channel = MemoryChannel(rejected="you are blocked")
    async with open_rig(tmp_path, answering("hello"), channel) as rig:
        await rig.channel.say("go")
        await rig.until_ended()
        await rig.until_idle()
        assert channel.sent == []
        assert len([event for event, _ in rig.logged if event == "message.failed"]) == 2
        notes = await rig.store.read(lambda tx: tx.inbox.waiting(notes_waitlist(MAIN)))
        assert len(notes) == 1


class FancyChannel(MemoryChannel):
    """Renders something fancy that its platform does not take."""

    # pyrefly: ignore [missing-override-decorator]
    def render(self, content: Content) -> tuple[Part, ...]:
        return (
            (Part("above"), Part("fancy"), Part("below"))
            if content.text == "long"
            else super().render(content)
        )

    def render_plainly(self, content: Content) -> tuple[Part, ...]:
        return (Part("above"), Part("plain 1"), Part("plain 2"), Part("below"))

    unsure = 0

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.text == "fancy" and self.unsure:
            self.unsure -= 1
            raise Unconfirmed("502")
        if part.text == "fancy":
            raise WantsPlainer("an old server")
        return await super().send(address, part)


async def test_what_is_refused_for_its_form_is_rendered_anew_in_its_place(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, FancyChannel()) as rig:
        await rig.store.write(lambda tx: say_in(tx, "long"))
        rig.poke()
        await rig.until_said("below")
        await rig.until_idle()
        assert rig.said() == ["above", "plain 1", "plain 2", "below"]


async def test_what_is_rendered_anew_keeps_the_mark_of_what_may_stand_there(tmp_path: Path) -> None:
    channel = FancyChannel()
    channel.unsure = 2
    async with open_rig(tmp_path, None, channel) as rig:
        await rig.store.write(lambda tx: say_in(tx, "long"))
        rig.poke()
        await rig.until_said("below")
        await rig.until_idle()
        assert rig.said() == ["above", f"plain 1\n\n{AGAIN_MARK}", "plain 2", "below"]


class PatientChannel(MemoryChannel):
    """Takes `takes_s` for whatever has a file."""

    takes_s = 0.5

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if part.attachments:
            await anyio.sleep(self.takes_s)
        return await super().send(address, part)


async def test_a_large_file_has_the_time_that_a_slow_line_takes(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, PatientChannel(), send_timeout_s=0.2) as rig:

        def put(tx: Tx) -> None:
            file = tx.blobs.attach(b"x" * 500_000, "big.zip", "application/zip", 1.0)
            tx.conversations.ensure(Conversation(MAIN, Address(MEMORY, "main"), 1.0))
            say(tx, new_id, MAIN, Content("there", attachments=(file,)), key="big", at=1.0)

        await rig.store.write(put)
        rig.poke()
        await rig.until_said("there")
        await rig.until_idle()
        assert rig.said() == ["there\n[big.zip]"]


class BuggyChannel(MemoryChannel):
    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if "could not be" not in part.text:
            raise KeyError("a bug")
        return await super().send(address, part)


async def test_a_bug_of_a_channel_is_tried_three_times_and_told(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, BuggyChannel()) as rig:
        await rig.store.write(lambda tx: say_in(tx, "hello"))
        rig.poke()
        await rig.until_said("could not be delivered after 3 tries")
        await rig.until_idle()


class DyingChannel(MemoryChannel):
    """Shows part number `at` and then dies with the process, before anybody could write it down."""

    def __init__(self, at: int) -> None:
        super().__init__(part_limit=200)
        self.left = at
        self.died = anyio.Event()

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        ref = await super().send(address, part)
        self.left -= 1
        if self.left == 0:
            self.died.set()
            await anyio.sleep_forever()
        return ref


@pytest.mark.parametrize("at", [1, 2, 3])
async def test_after_a_crash_in_the_middle_only_the_doubtful_part_is_repeated_and_marked(
    tmp_path: Path, at: int
) -> None:
    dying = DyingChannel(at)
    async with open_rig(tmp_path, answering(LONG), dying, name="first", edit_every_s=60) as rig:
        await rig.channel.say("go", native_id="go")
        with anyio.fail_after(60):
            await dying.died.wait()
        rig.crash()
    channel = MemoryChannel(part_limit=200)
    async with open_rig(tmp_path, None, channel, name="second", alive=only_alive("second")) as rig:
        await rig.until_idle()
    before, after = [p.text for p in dying.sent], [p.text for p in channel.sent]
    assert len(before) == at
    assert after[0].removesuffix(f"\n\n{AGAIN_MARK}") == before[-1]
    assert [AGAIN_MARK in text for text in after] == [True] + [False] * (len(after) - 1)
    seen = "".join(before[:-1] + after)
    assert all(seen.count(f"paragraph {number} ") == 1 for number in range(10))


async def test_a_message_that_three_processes_died_of_is_not_the_first_thing_that_the_next_does(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    for name in ("first", "second", "third"):
        dying = DyingChannel(1)
        async with open_rig(tmp_path, None, dying, clock=clock, name=name, alive=only_alive(name)) as rig:
            await rig.store.write(lambda tx: say_in(tx, "hello"))
            rig.poke()
            with anyio.fail_after(60):
                await dying.died.wait()
            rig.crash()
    async with open_rig(
        tmp_path, clock=clock, name="fourth", alive=only_alive("fourth"), retry_first_s=2.0
    ) as rig:
        row = await rig.until(lambda tx: postponed(tx, clock.now()))
        assert rig.said() == []
        await clock.advance(row.ready_at - clock.now())
        rig.poke()
        await rig.until_said("hello")
        assert rig.said() == [f"hello\n\n{AGAIN_MARK}"]


class SlowPlace(MemoryChannel):
    """Nothing ever arrives in the place `slow`."""

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.place == "slow":
            await anyio.sleep_forever()
        return await super().send(address, part)


async def test_a_slow_conversation_slows_no_other(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, SlowPlace(), drain_s=0.1) as rig:
        await rig.channel.say("hello", "slow")
        await rig.until(lambda tx: tx.turns.of(statuses=("done",)))
        for number in range(5):
            await rig.channel.say(f"hello {number}")
            await rig.until_said(f"you said: hello {number}")


async def test_within_a_conversation_order_is_kept_even_when_the_first_must_wait(tmp_path: Path) -> None:
    clock = FakeClock()
    channel = MemoryChannel(try_later=[10])
    async with open_rig(tmp_path, None, channel, clock=clock) as rig:
        await rig.store.write(lambda tx: (say_in(tx, "first"), say_in(tx, "second"), say_in(tx, "third")))
        await rig.store.write(lambda tx: say_in(tx, "elsewhere", "other"))
        rig.poke()
        await rig.until(lambda tx: postponed(tx, clock.now()))
        await rig.until_said("elsewhere")
        assert rig.said() == []
        await clock.advance(10)
        rig.poke()
        await rig.until_idle()
        assert rig.said() == ["first", "second", "third"]


class PacedChannel(MemoryChannel):
    interval_s = 5.0


async def test_a_platform_that_wants_a_pause_gets_it_per_conversation(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, None, PacedChannel(), clock=clock) as rig:
        await rig.store.write(lambda tx: [say_in(tx, f"{n}") for n in "abc"])
        await rig.store.write(lambda tx: say_in(tx, "elsewhere", "other"))
        rig.poke()
        await rig.until_said("elsewhere")
        for expected in (["a"], ["a", "b"], ["a", "b", "c"]):
            await rig.until_true(lambda expected=expected: rig.said() == expected)
            await clock.advance(4.9)
            rig.poke()
            assert rig.said() == expected
            await clock.advance(0.1)
            rig.poke()


async def test_mail_for_a_channel_that_nobody_configured_fails_and_is_never_delivered(tmp_path: Path) -> None:
    address = Address(ChannelId("telegraph"), "wire")

    def put(tx: Tx) -> None:
        tx.conversations.ensure(Conversation(conversation_id(address), address, 1.0))
        content = Content("stop")
        say(tx, new_id, conversation_id(address), content, key="wire", at=1.0)

    async with open_rig(tmp_path) as rig:
        await rig.store.write(put)
        rig.poke()
        row = await rig.until(lambda tx: (row := tx.outbox.by_key("wire")) and row.ended_at and row)
        assert (row.status, row.why) == ("failed", "its channel is not configured")
        assert await rig.audited("message.") == ["message.undeliverable"]


async def test_mail_for_a_channel_that_was_served_without_being_configured_waits(tmp_path: Path) -> None:
    address = Address(ChannelId("telegraph"), "wire")

    def put(tx: Tx) -> None:
        note_served(tx, address.channel)
        tx.conversations.ensure(Conversation(conversation_id(address), address, 1.0))
        say(tx, new_id, conversation_id(address), Content("stop"), key="wire", at=1.0)

    async with open_rig(tmp_path) as rig:
        await rig.store.write(put)
        rig.poke()
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
        row = await rig.store.read(lambda tx: tx.outbox.by_key("wire"))
        assert row is not None
        assert row.ended_at is None


async def test_what_tells_of_a_moment_says_when_that_was_if_it_is_shown_late(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        now = rig.ports.clock.now()
        old = now - 3 * 86_400

        def put(tx: Tx) -> None:
            ensure_place(tx, rig.channel.address(), now)
            say(tx, new_id, MAIN, Content("Old news.", dated=True), key="old", at=old)
            say(tx, new_id, MAIN, Content("An old answer.", "answer"), key="answer", at=old)
            say(tx, new_id, MAIN, Content("News.", dated=True), key="new", at=now)

        await rig.store.write(put)
        rig.poke()
        await rig.until_said("News.")
        assert [posted.text for posted in rig.channel.sent] == [
            f"A{moment(old, now)[1:]}: Old news.",
            "An old answer.",
            "News.",
        ]


class ClumsyChannel(MemoryChannel):
    """Cannot render what it does not like, and forgets to say which error it means."""

    # pyrefly: ignore [missing-override-decorator]
    def render(self, content: Content) -> tuple[Part, ...]:
        if content.text == "unprintable":
            raise ValueError("what is this?")
        return super().render(content)


async def test_a_message_that_a_channel_cannot_render_fails_alone_and_visibly(tmp_path: Path) -> None:
    async with open_rig(tmp_path, answering("unprintable"), ClumsyChannel()) as rig:
        await rig.channel.say("go")
        await rig.until_said("could not be prepared for this channel: unprintable")
        await rig.channel.say("next")
        await rig.until_said("next")


async def test_a_platform_that_tells_things_twice_changes_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, MemoryChannel(twice=True)) as rig:
        await rig.channel.say("hello")
        await rig.channel.say("/status")
        await rig.until_ended()
        await rig.until_idle()
        assert (len(rig.engine.turns), len(rig.said())) == (1, 2)


async def test_what_is_ready_is_delivered_before_the_gateway_leaves(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, MemoryChannel(slow_s=0.05)) as rig:
        await rig.store.write(lambda tx: [say_in(tx, f"{n}") for n in "abc"])
        rig.poke()
    assert rig.said() == ["a", "b", "c"]


def _put_unreadable(tx: Tx) -> None:
    tx.conversations.ensure(Conversation(MAIN, Address(MEMORY, "main"), 0.0))
    tx.outbox.put(
        id=MessageId("out-bad"),
        key="bad",
        conversation_id=MAIN,
        kind="answer",
        body=b'{"kind":"from the future"}',
        at=1.0,
    )


async def test_a_row_that_nobody_can_read_ends_visibly_and_what_stands_behind_it_is_sent(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.store.write(_put_unreadable)
        await rig.channel.say("hello")
        await rig.until_said("hello")  # perhaps framed: the session hears of the row too, if that ends first
        await rig.until_said("could not be read and was set aside")
        row = await rig.store.read(lambda tx: tx.outbox.get(MessageId("out-bad")))
        assert row is not None
        assert row.status == "failed"


class MeddlingChannel(MemoryChannel):
    """While it sends, somebody else records the part as sent."""

    rig: Rig

    # pyrefly: ignore [missing-override-decorator]
    async def send(self, address: Address, part: Part) -> MessageRef:
        ref = await super().send(address, part)
        if "meddle" in part.text and "could not" not in part.text:

            def meddle(tx: Tx) -> None:
                (row,) = [row for row in tx.outbox.unfinished(MAIN) if row.status == "claimed"]
                tx.outbox.sent(row.id, 0, ref)

            await self.rig.store.write(meddle)
        return ref


async def test_a_part_that_cannot_be_recorded_costs_its_own_row_and_nothing_else(tmp_path: Path) -> None:
    channel = MeddlingChannel()
    async with open_rig(tmp_path, answering("meddle"), channel) as rig:
        channel.rig = rig
        await rig.channel.say("go")
        await rig.until_said("meddle")
        await rig.channel.say("next")
        await rig.until_said("you said: next")
        await rig.until_idle()
        assert rig.said().count("meddle") == 1, "the store says that it stands there"


class AskingChannel(MemoryChannel):
    """It is here for one message of the conversation, once that is known."""

    asked: tuple[MessageId, ...] = ()

    def holds(self) -> tuple[ConversationId, ...]:
        return (MAIN,)

    def messages(self) -> tuple[MessageId, ...]:
        return self.asked


async def test_whoever_is_here_for_one_message_is_not_sent_the_answers_of_others(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo), channel := AskingChannel()) as rig:
        for text in ("theirs", "/status"):
            await channel.say(text)
        await rig.until_ended(1)
        mine = await channel.say("mine")
        await rig.until_ended(2)
        assert mine.message_id is not None
        channel.asked = (mine.message_id,)
        await rig.store.write(lambda tx: say_in(tx, "to nobody in particular"))
        rig.poke()
        await rig.until_said("to nobody in particular")
        assert rig.said() == ["you said: mine", "to nobody in particular"]
        left = await rig.store.read(lambda tx: tx.outbox.unfinished(MAIN))
        assert [row.kind for row in left if row.status == "queued"].count("answer") == 1
    async with open_rig(tmp_path, PuppetEngine(echo), name="later") as rig:
        await rig.until_said("you said: theirs")
        await rig.until_idle()
        assert "you said: mine" not in rig.said()


async def test_a_command_is_told_its_own_reply_and_no_other(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo), channel := AskingChannel()) as rig:
        await channel.say("/status")
        receipt = await channel.say("/queue")
        assert receipt.message_id is not None
        channel.asked = (receipt.message_id,)
        rig.poke()
        await rig.until_said("Nothing waits.")
        assert rig.said() == ["Nothing waits."]


class SharedChannel(MemoryChannel):
    """One of two processes that show the same places."""

    theirs: tuple[str, ...] = ()

    def was_sent_elsewhere(self, native_id: str) -> bool:
        return native_id in self.theirs


async def test_a_reply_is_left_to_the_process_that_sent_the_message_for_a_moment(tmp_path: Path) -> None:
    """S2: of two chats in one folder, either showed the replies to what was typed in the other."""
    clock = FakeClock(now=1_700_000_000.0)
    async with open_rig(tmp_path, PuppetEngine(echo), channel := SharedChannel(), clock=clock) as rig:
        channel.theirs = ("theirs-1", "theirs-2")
        await channel.say("/queue", native_id="theirs-1")
        await channel.say("hello", native_id="theirs-2", conversation="other")
        await channel.say("mine", conversation="third")
        await rig.until_said("you said: mine")
        assert [posted.text for posted in rig.channel.sent] == ["you said: mine"]
        await clock.advance(LEFT_S)
        rig.poke()  # the fake clock moves no timer of the event loop
        await rig.until_said("Nothing waits.")
        await rig.until_said("you said: hello")
