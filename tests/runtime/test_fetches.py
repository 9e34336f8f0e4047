"""A message whose file is still being fetched: a `/stop` with nothing running takes it back, else it names it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio.abc import TaskGroup
from msgspec.structs import replace
from tests.runtime.puppet import PuppetEngine, echo, until_interrupted
from tests.runtime.rig import MAIN, MEMBER, STRANGER, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.channel import Receipt
from pilothouse.core.message import Author, InboundMessage, Piece, made_of
from pilothouse.core.queue import QueueRow
from pilothouse.runtime.conversations.places import message_key

STOPPED = "Stopped before it began, while its file was downloading."
BEHIND = "Not run: it was sent before the last /stop."
NAMED = "A message whose file is still downloading runs when it is complete."


class Fetch:
    """A channel that fetches the file of one message, for as long as it is told to."""

    def __init__(self, rig: Rig, text: str, native_id: str = "f1", author: Author = PERSON) -> None:
        self.rig = rig
        self.message = InboundMessage(rig.channel.address(), author, native_id, text, private=True)
        self.began = anyio.Event()
        self.come = anyio.Event()
        self.left = anyio.Event()
        self.receipt: Receipt | None = None

    async def run(self) -> None:
        with self.rig.gateway.desk.expecting(self.message):
            self.began.set()
            await self.come.wait()
            self.receipt = await self.rig.gateway.desk.accept(self.message)
        self.left.set()

    async def row(self) -> QueueRow | None:
        key = message_key(self.message.address, self.message.native_id)
        return await self.rig.store.read(lambda tx: tx.inbox.by_key(key))


async def until(event: anyio.Event) -> None:
    with anyio.fail_after(60):
        await event.wait()


async def test_with_nothing_running_a_stop_takes_it_back_and_nobody_waits_for_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        fetch = Fetch(rig, "look at this")
        tasks.start_soon(fetch.run)
        await until(fetch.began)
        await rig.channel.say("/stop")
        await rig.until_said(STOPPED)
        await until(fetch.left)
        assert fetch.receipt is None
        row = await fetch.row()
        assert row is not None
        assert (row.status, row.why) == ("withdrawn", f"stopped by {PERSON.id}")
        assert msgspec.json.decode(row.body, type=InboundMessage).text == "look at this"
        again = await rig.gateway.desk.accept(fetch.message)  # a channel that was killed brings it once more
        assert again == Receipt("duplicate", row.id)
        assert await rig.audited("sender.") == ["sender.accepted"]
        await rig.channel.say("/stop")
        await rig.until_said("Nothing is running here.")
        await rig.channel.say("something else")
        await rig.until_said("you said: something else")
        assert [strings.prompt.text for strings in rig.engine.turns] == ["something else"]


async def test_each_piece_of_what_was_taken_back_is_a_repeat(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        fetch = Fetch(rig, "")
        pieces = (Piece("f1", "a"), Piece("f2", "b"))
        fetch.message = made_of(fetch.message, pieces)
        tasks.start_soon(fetch.run)
        await until(fetch.began)
        await rig.channel.say("/stop")
        await rig.until_said(STOPPED)
        row = await fetch.row()
        assert row is not None
        for piece in pieces:
            alone = msgspec.structs.replace(made_of(fetch.message, (piece,)), native_id=piece.native_id)
            assert await rig.gateway.desk.accept(alone) == Receipt("duplicate", row.id)


async def test_while_a_turn_runs_a_stop_names_it_and_it_begins_when_it_has_come(tmp_path: Path) -> None:
    async with (
        open_rig(tmp_path, PuppetEngine(until_interrupted, echo)) as rig,
        anyio.create_task_group() as tasks,
    ):
        await rig.channel.say("one")
        await rig.until_live(MAIN, "running")
        fetch = Fetch(rig, "look at this")
        tasks.start_soon(fetch.run)
        await until(fetch.began)
        await rig.gateway.desk.accept(replace(fetch.message, native_id="s1", text="/stop", sent_at=110.0))
        await rig.until_said(f"Stopping. {NAMED}")
        await rig.until_ended()
        fetch.come.set()
        await until(fetch.left)
        await rig.until_said("you said: look at this")
        behind = replace(fetch.message, native_id="b1", text="be quick", sent_at=105.0)
        await rig.gateway.desk.accept(behind)
        await rig.until_said("you said: be quick")


async def stop_with_words_behind(rig: Rig, tasks: TaskGroup, stopped_at: float = 110.0) -> Fetch:
    """A file that hangs since 100, and a stop at 110, by the platform's clock. The gateway's is none of it."""
    fetch = Fetch(rig, "look at this")
    fetch.message = replace(fetch.message, sent_at=stopped_at - 10)
    tasks.start_soon(fetch.run)
    await until(fetch.began)
    await rig.gateway.desk.accept(replace(fetch.message, native_id="s1", text="/stop", sent_at=stopped_at))
    await rig.until_said(STOPPED)
    await until(fetch.left)
    return fetch


async def test_what_was_said_behind_it_before_the_stop_is_stopped_and_what_after_goes_on(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        fetch = await stop_with_words_behind(rig, tasks)
        behind = replace(fetch.message, native_id="b1", text="be quick", sent_at=105.0)
        receipt = await rig.gateway.desk.accept(behind)
        await rig.until_said(BEHIND)
        row = await rig.inbox_row(receipt)
        assert (receipt.state, row.status, row.why) == ("refused", "withdrawn", "said before a stop")
        assert await rig.gateway.desk.accept(behind) == Receipt("duplicate", row.id)
        after = replace(fetch.message, native_id="b2", text="something else", sent_at=110.0)
        assert (await rig.gateway.desk.accept(after)).state == "queued"
        await rig.until_said("you said: something else")
        assert [strings.prompt.text for strings in rig.engine.turns] == ["something else"]
        assert rig.said().count(BEHIND) == 1


async def test_a_command_behind_it_is_carried_out_but_not_what_it_opens(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        fetch = await stop_with_words_behind(rig, tasks)
        opening = replace(fetch.message, native_id="b1", text="/new be quick", sent_at=105.0)
        assert (await rig.gateway.desk.accept(opening)).state == "refused"
        await rig.until_said(BEHIND)
        await rig.gateway.desk.accept(replace(opening, native_id="b2", text="/status"))
        await rig.until_said("0 waiting")
        assert not rig.engine.turns


@pytest.mark.parametrize("ahead_s", [-60.0, 60.0])
async def test_what_a_slash_command_opens_is_judged_by_the_platforms_clock_alone(
    tmp_path: Path, ahead_s: float
) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        stopped_at, address = rig.ports.clock.now() + ahead_s, rig.channel.address()
        await stop_with_words_behind(rig, tasks, stopped_at)
        command = partial(rig.gateway.desk.command, address, PERSON)
        before = await command("/new be quick", "i1", sent_at=stopped_at - 5)
        assert (before.state, (await rig.inbox_row(before)).status) == ("refused", "withdrawn")
        await rig.until_said(BEHIND)
        after = await command("/new something else", "i2", sent_at=stopped_at + 5)
        assert after.state == "queued"
        await rig.until_said("something else")
        assert (await command("/new no time", "i3")).state == "queued"
        await rig.until_said("no time")


async def test_what_does_not_say_when_it_was_said_and_what_is_said_elsewhere_goes_on(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        fetch = await stop_with_words_behind(rig, tasks)
        elsewhere = rig.channel.address("elsewhere")
        for other in (
            replace(fetch.message, native_id="b1", text="no time", sent_at=0.0),
            replace(fetch.message, native_id="b2", text="there", sent_at=105.0, address=elsewhere),
        ):
            assert (await rig.gateway.desk.accept(other)).state == "queued"
            await rig.until_said(f"you said: {other.text}")


async def test_a_stop_that_does_not_say_when_stops_nothing_that_is_still_to_come(tmp_path: Path) -> None:
    """A button: our clock may be ahead of the platform's, and words after it would seem to be from before."""
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        fetch = Fetch(rig, "look at this")
        tasks.start_soon(fetch.run)
        await until(fetch.began)
        await rig.gateway.desk.command(rig.channel.address(), PERSON, "/stop", "s1")
        await rig.until_said(STOPPED)
        await rig.gateway.desk.accept(replace(fetch.message, native_id="b1", text="on", sent_at=105.0))
        await rig.until_said("you said: on")


async def test_several_are_counted(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        for fetch in (Fetch(rig, "a", "f1"), Fetch(rig, "b", "f2", MEMBER)):
            tasks.start_soon(fetch.run)
            await until(fetch.began)
        await rig.channel.say("/stop")
        await rig.until_said("Stopped 2 messages before they began, while files were downloading.")


async def test_a_stop_touches_neither_another_place_nor_a_command_nor_a_stranger(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig, anyio.create_task_group() as tasks:
        elsewhere = Fetch(rig, "elsewhere")
        elsewhere.message = msgspec.structs.replace(
            elsewhere.message, address=rig.channel.address("elsewhere")
        )
        fetches = [elsewhere, Fetch(rig, "/status", "f2"), Fetch(rig, "let me in", "f3", STRANGER)]
        for fetch in fetches:
            tasks.start_soon(fetch.run)
            await until(fetch.began)
        await rig.channel.say("/stop")
        await rig.until_said("Nothing is running here.")
        for fetch in fetches:
            fetch.come.set()
            await until(fetch.left)
        assert [fetch.receipt and fetch.receipt.state for fetch in fetches][:2] == ["queued", "queued"]
        await rig.until_true(lambda: [strings.prompt.text for strings in rig.engine.turns] == ["elsewhere"])


async def test_what_comes_before_the_stop_is_carried_out_is_no_longer_expected(tmp_path: Path) -> None:
    """Accepted, but its channel has not left yet: it has a row, and a turn that is stopped as any other."""
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        message = InboundMessage(rig.channel.address(), PERSON, "f1", "look", private=True)
        with rig.gateway.desk.expecting(message):
            receipt = await rig.gateway.desk.accept(message)
            await rig.until_live(MAIN, "running")
            await rig.channel.say("/stop")
            await rig.until_said("Stopping.")
            (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        assert (await rig.inbox_row(receipt)).status == "done"
        assert not any(NAMED in text or STOPPED in text for text in rig.said())


async def test_what_is_queued_beside_it_is_named_and_left(tmp_path: Path) -> None:
    async with open_rig(tmp_path, max_turns_at_once=0) as rig, anyio.create_task_group() as tasks:
        await rig.channel.say("waits")
        fetch = Fetch(rig, "look at this")
        tasks.start_soon(fetch.run)
        await until(fetch.began)
        await rig.channel.say("/stop")
        await rig.until_said(f"{STOPPED} 1 queued message runs next; /stop ends it too.")
        waiting = await rig.store.read(lambda tx: tx.inbox.waiting(MAIN))
        assert [msgspec.json.decode(row.body, type=InboundMessage).text for row in waiting] == ["waits"]


async def test_a_stop_elsewhere_leaves_a_message_whose_first_piece_was_withdrawn(tmp_path: Path) -> None:
    """It came in two pieces; we were killed between them, and both come again."""
    async with open_rig(tmp_path, max_turns_at_once=0) as rig, anyio.create_task_group() as tasks:
        fetch = Fetch(rig, "a\nb")
        first, second = Piece("f1", "a"), Piece("f2", "b")
        alone = await rig.gateway.desk.accept(made_of(fetch.message, (first,)))
        row = await rig.inbox_row(alone)
        await rig.channel.say(f"/cancel #{row.seq}")
        fetch.message = made_of(fetch.message, (first, second))
        tasks.start_soon(fetch.run)
        await until(fetch.began)
        await rig.channel.say("/stop", "elsewhere")
        await rig.until_said("Nothing is running here.")
        fetch.come.set()
        await until(fetch.left)
        assert fetch.receipt is not None
        assert (await rig.inbox_row(fetch.receipt)).status == "queued"
