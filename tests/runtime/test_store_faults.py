"""A disk that is full, read-only or locked for a while: nothing is lost, and nobody is told otherwise."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, deaf, echo
from tests.runtime.rig import MAIN, FaultyStore, Rig, open_rig

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.ask import Ask
from pilothouse.core.errors import Fenced, StoreUnavailable
from pilothouse.core.event import TextDelta, ToolFinished, ToolStarted
from pilothouse.core.ids import AskId

TROUBLES = pytest.mark.parametrize(
    "trouble", ["the disk is full", "the database is read-only", "the database is locked"]
)


def fill(disks: list[FaultyStore]) -> None:
    while disks:
        disks.pop().trouble = "the disk is full"


async def until_refused(rig: Rig, times: int = 2) -> None:
    await rig.until_true(lambda: rig.store.refused >= times)


@TROUBLES
async def test_a_turn_that_ends_while_nothing_can_be_written_ends_later_and_loses_nothing(
    tmp_path: Path, trouble: str
) -> None:
    go = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.say("before")
        await go.wait()
        await strings.tool()
        await strings.tool_done()
        await strings.say("after", "b2")
        await strings.end()

    async with open_rig(tmp_path, PuppetEngine(play, echo)) as rig:
        receipt = await rig.channel.say("go")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.began)
        rig.store.trouble = trouble
        go.set()
        await until_refused(rig)
        assert rig.said() == []
        rig.store.trouble = ""
        await rig.until_said("before\n\nafter")
        (turn,) = await rig.until_ended()
        assert turn.status == "done"
        await rig.until_idle()
        assert (await rig.inbox_row(receipt)).status == "done"
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert text == "beforeafter"
        assert sum(isinstance(event, ToolStarted | ToolFinished) for event in events) == 2
        await rig.channel.say("next")
        await rig.until_said("you said: next")


@TROUBLES
async def test_a_message_that_cannot_be_stored_is_refused_to_the_channel_and_half_of_nothing_is_kept(
    tmp_path: Path, trouble: str
) -> None:
    async with open_rig(tmp_path) as rig:
        rig.store.trouble = trouble
        with pytest.raises(StoreUnavailable):
            await rig.channel.say("hello", "nowhere", native_id="1")
        with pytest.raises(StoreUnavailable):
            await rig.channel.say("/new", "nowhere", native_id="2")
        rig.store.trouble = ""
        assert await rig.store.read(lambda tx: tx.conversations.list()) == []
        assert (await rig.channel.say("hello", "nowhere", native_id="1")).state == "queued"
        await rig.until_said("you said: hello")


async def test_an_ask_made_while_nothing_can_be_written_is_asked_later(tmp_path: Path) -> None:
    go = anyio.Event()

    async def play(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        decision = await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))
        await strings.end(f"told: {decision.verdict}")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        await rig.until_true(lambda: rig.engine.turns)
        rig.store.trouble = "the disk is full"
        go.set()
        await until_refused(rig)
        rig.store.trouble = ""
        await rig.channel.answer(await rig.until_asked(), "allow")
        await rig.until_said("told: allow")


async def test_an_answer_that_cannot_be_stored_does_not_count(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))
        await strings.end(f"told: {decision.verdict} {decision.text}")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        rig.store.trouble = "the disk is full"
        with pytest.raises(StoreUnavailable):
            await rig.channel.answer(ask, "allow")
        rig.store.trouble = ""
        await rig.channel.answer(ask, "deny", text="on second thought")
        await rig.until_said("told: deny on second thought")


async def test_a_message_that_was_sent_but_could_not_be_recorded_is_not_sent_again(tmp_path: Path) -> None:
    disks: list[FaultyStore] = []
    channel = MemoryChannel(record=lambda effect: fill(disks))
    async with open_rig(tmp_path, None, channel, edit_every_s=60) as rig:
        disks.append(rig.store)
        await rig.channel.say("hello")
        await until_refused(rig)
        rig.store.trouble = ""
        await rig.until_idle()
        assert rig.said() == ["you said: hello"]


async def test_a_turn_can_be_stopped_while_nothing_can_be_written(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(deaf), stop_grace_s=0.05) as rig:
        await rig.channel.say("go")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("/stop")
        rig.store.trouble = "the disk is full"
        await until_refused(rig)
        rig.store.trouble = ""
        assert [turn.status for turn in await rig.until_ended()] == ["cancelled"]


async def test_a_shutdown_while_nothing_can_be_written_ends_and_the_next_start_recovers(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(deaf), name="first", grace_s=0.01, drain_s=0.2) as rig:
        await rig.channel.say("hello")
        await rig.until_true(lambda: rig.engine.turns)
        rig.store.trouble = "the disk is full"
        rig.gateway.stop()
        with anyio.fail_after(60):
            await rig.over.wait()
        assert rig.engine.open_sessions == 0
    async with open_rig(tmp_path, name="second", alive=lambda info: info.name == "second") as rig:
        await rig.until_said("you said: hello")


async def test_a_store_that_is_deleted_under_a_gateway_ends_it_and_says_why(tmp_path: Path) -> None:
    async with open_rig(tmp_path, ends_with=Fenced, lease_s=0.5) as rig:
        (tmp_path / "pilothouse.db").unlink()
        with anyio.fail_after(60):
            await rig.over.wait()
        assert "was deleted or replaced while it was in use" in str(rig.error)
