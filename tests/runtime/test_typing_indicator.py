"""Typing: from a turn's start until its end, not while somebody is asked, and never in the way."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, Rig, open_rig

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.ask import Ask, Option, hash_payload
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.ids import AskId
from pilothouse.core.message import Address
from pilothouse.testing.clock import FakeClock

EVERY_S = 4.0
QUESTION = Ask(AskId("q"), "question", "Which?", {"q": 1}, hash_payload({"q": 1}), (Option("a", "A"),))


class TypingChannel(MemoryChannel):
    """Writes down where it typed; `error` is what it raises instead, `hangs` that the platform never answers."""

    type_every_s: float = EVERY_S

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        super().__init__()
        self.typed: list[Address] = []
        self._error = error
        self._hangs = hangs

    async def type(self, address: Address) -> None:
        self.typed.append(address)
        if self._error is not None:
            raise self._error
        if self._hangs:
            await anyio.sleep_forever()


class Stage:
    """A turn that works until it is let go."""

    def __init__(self) -> None:
        self.go = anyio.Event()

    async def play(self, strings: Strings) -> None:
        await strings.start()
        await self.go.wait()
        await strings.end("done")


async def settled(rig: Rig, clock: FakeClock, channel: TypingChannel) -> int:
    """How often it has typed once nobody is about to: time goes on, and nothing more comes."""
    for _ in range(5):
        await clock.advance(EVERY_S)
        await rig.store.read(lambda tx: tx.turns.live_in(MAIN))
    return len(channel.typed)


async def test_a_turn_types_from_its_start_and_again_before_the_sign_goes_out(tmp_path: Path) -> None:
    stage, clock, channel = Stage(), FakeClock(), TypingChannel()
    async with open_rig(tmp_path, PuppetEngine(stage.play), channel, clock=clock) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: channel.typed)
        assert channel.typed == [channel.address()]
        for times in (2, 3):
            await clock.advance(EVERY_S)
            await rig.until_true(lambda: len(channel.typed) == times)  # noqa: B023
        stage.go.set()
        await rig.until_said("done")


async def test_nothing_types_once_the_turn_is_over(tmp_path: Path) -> None:
    stage, clock, channel = Stage(), FakeClock(), TypingChannel()
    async with open_rig(tmp_path, PuppetEngine(stage.play), channel, clock=clock) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: channel.typed)
        stage.go.set()
        await rig.until_said("done")
        await rig.until_idle()
        over = await settled(rig, clock, channel)
        assert await settled(rig, clock, channel) == over


async def test_a_turn_that_waits_for_an_answer_does_not_type(tmp_path: Path) -> None:
    clock, channel, go = FakeClock(), TypingChannel(), anyio.Event()

    async def asks(strings: Strings) -> None:
        await strings.start()
        await strings.ask(QUESTION)
        await go.wait()
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(asks), channel, clock=clock) as rig:
        await rig.channel.say("build")
        asked = await rig.until_asked("Which?")
        await rig.until_live(status="waiting")
        waiting = await settled(rig, clock, channel)
        assert await settled(rig, clock, channel) == waiting
        await channel.answer(asked, "answer", options=("a",))
        await rig.until_live(status="running")
        with anyio.fail_after(60):
            while len(channel.typed) <= waiting:
                await clock.advance(EVERY_S)
                await anyio.sleep(0.01)
        go.set()
        await rig.until_said("done")


@pytest.mark.parametrize(
    "error",
    [Rejected("gone"), TryLater(60.0), RuntimeError("bug"), OSError("network")],
    ids=lambda e: type(e).__name__,
)
async def test_a_sign_that_cannot_be_shown_costs_nothing_and_is_not_tried_again_and_again(
    tmp_path: Path, error: Exception
) -> None:
    stage, clock, channel = Stage(), FakeClock(), TypingChannel(error)
    async with open_rig(tmp_path, PuppetEngine(stage.play, echo), channel, clock=clock) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: channel.typed)
        for _ in range(3):
            rig.poke()
            await clock.advance(EVERY_S)
        assert len(channel.typed) == 1
        stage.go.set()
        await rig.until_said("done")
        await rig.channel.say("next")
        await rig.until_said("you said: next")


async def test_a_place_that_takes_no_sign_is_logged_without_a_traceback(tmp_path: Path) -> None:
    stage, channel = Stage(), TypingChannel(Rejected("bot was kicked"))
    async with open_rig(tmp_path, PuppetEngine(stage.play), channel) as rig:
        await rig.channel.say("build")
        logged = await rig.until_true(
            lambda: [fields["error"] for name, fields in rig.logged if name == "typing.dropped"]
        )
        assert logged == ["bot was kicked"], "an exception would come with its traceback"
        stage.go.set()
        await rig.until_said("done")


async def test_a_platform_that_never_answers_holds_up_no_final(tmp_path: Path) -> None:
    stage, channel = Stage(), TypingChannel(hangs=True)
    async with open_rig(tmp_path, PuppetEngine(stage.play), channel) as rig:
        await rig.channel.say("build")
        await rig.until_true(lambda: channel.typed)
        stage.go.set()
        await rig.until_said("done")
