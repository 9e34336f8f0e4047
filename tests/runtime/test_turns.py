"""A message goes in, an answer comes out: the ordinary ways of a turn."""

from __future__ import annotations

from pathlib import Path

import anyio
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, open_rig

from pilothouse.core.event import TurnEnded
from pilothouse.core.outcome import Failure


async def test_a_message_is_answered_once(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        receipt = await rig.channel.say("hello")
        assert receipt.state == "queued"
        await rig.until_said("you said:")
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.cause) == ("done", "message")
    assert len(rig.said()) == 1


async def test_the_same_message_twice_is_one_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        first = await rig.channel.say("hello", native_id="7")
        again = await rig.channel.say("hello", native_id="7")
        assert (first.state, again.state) == ("queued", "duplicate")
        assert again.message_id == first.message_id
        await rig.until_ended()
    assert len(rig.said()) == 1


async def test_a_second_message_waits_for_the_first(tmp_path: Path) -> None:
    go = anyio.Event()

    async def slow(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("first")

    engine = PuppetEngine(slow, echo)
    async with open_rig(tmp_path, engine) as rig:
        await rig.channel.say("one")
        await rig.until(lambda tx: tx.turns.live_in(MAIN))
        receipt = await rig.channel.say("two")
        assert "(/cancel drops it)" in receipt.text
        await rig.channel.say("three")
        assert len(engine.turns) == 1
        go.set()
        await rig.until_ended(2)
        assert "two" in engine.turns[1].prompt.text
        assert "three" in engine.turns[1].prompt.text


async def test_a_failure_is_told(tmp_path: Path) -> None:
    async def fail(strings: Strings) -> None:
        await strings.start()
        await strings.emit(TurnEnded("failed", failure=Failure("auth", "You are not logged in.")))

    async with open_rig(tmp_path, PuppetEngine(fail)) as rig:
        await rig.channel.say("hello")
        assert await rig.until_said("You are not logged in.")
        (turn,) = await rig.until_ended()
        assert turn.status == "failed"


async def test_what_crashes_its_engine_again_and_again_is_set_aside(tmp_path: Path) -> None:
    async def crash(strings: Strings) -> None:
        await strings.start()

    engine = PuppetEngine(crash)
    async with open_rig(tmp_path, engine, max_attempts=3) as rig:
        await rig.channel.say("boom")
        assert "/retry tries again" in await rig.until_said("I gave up after 3 tries")
        await rig.until_ended()
    assert len(engine.turns) == 3
    assert len(rig.said()) == 1
