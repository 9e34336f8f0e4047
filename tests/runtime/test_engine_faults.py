"""Engines that raise, hang, linger, or are not there: each costs its own turn and nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType

import anyio
from tests.runtime.puppet import PUPPET, BareSession, PuppetEngine, PuppetSession, Strings, deaf, echo
from tests.runtime.rig import MAIN, open_rig

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent
from pilothouse.core.ids import ConversationId, EngineId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.runtime.engines import EngineHost
from pilothouse.testing.clock import FakeClock

OTHER = ConversationId("memory:other")


async def test_an_engine_that_raises_fails_its_turn_and_no_other(tmp_path: Path) -> None:
    async def explode(strings: Strings) -> None:
        await strings.start()
        await strings.say("half an ans")
        raise RuntimeError("boom")

    async with open_rig(tmp_path, PuppetEngine(explode, echo)) as rig:
        await rig.channel.say("one")
        (turn,) = await rig.until_ended()
        assert turn.status == "failed"
        assert turn.failure is not None
        assert turn.failure.kind == "crash"
        assert "boom" in turn.failure.detail
        assert "half an ans" in await rig.until_said("unexpected error")
        await rig.channel.say("two")
        assert await rig.until_said("you said: two")


async def test_an_engine_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    async def refuse() -> None:
        raise EngineError(Failure("auth", "Log in with `puppet login`."))

    async with open_rig(tmp_path, PuppetEngine(opening=refuse)) as rig:
        await rig.channel.say("hello")
        assert await rig.until_said("puppet login")
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.failure and turn.failure.kind) == ("failed", "auth")
        events = await rig.store.read(lambda tx: tx.events.of_turn(turn.id))
        assert [type(logged.event).__name__ for logged in events] == ["TurnEnded"]


async def test_an_engine_whose_opening_raises_anything_at_all_fails_the_turn(tmp_path: Path) -> None:
    async def explode() -> None:
        raise KeyError("surprise")

    async with open_rig(tmp_path, PuppetEngine(opening=explode), max_attempts=1) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until_ended()
        assert turn.failure is not None
        assert "KeyError" in turn.failure.detail


async def test_a_session_whose_closing_raises_has_still_answered(tmp_path: Path) -> None:
    async def explode() -> None:
        raise RuntimeError("closing broke")

    async with open_rig(tmp_path, PuppetEngine(closing=explode)) as rig:
        await rig.channel.say("one")
        await rig.until_said("you said: one")
        await rig.channel.say("two")
        await rig.until_said("you said: two")
        assert [turn.status for turn in await rig.until_ended(2)] == ["done", "done"]
    assert any(event == "turn.broke" for event, _ in rig.logged)


async def test_an_engine_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with open_rig(tmp_path, default_engine=EngineId("ghost")) as rig:
        await rig.channel.say("hello")
        assert "/engine" in await rig.until_said("'ghost' is not available")


async def test_a_workspace_that_is_missing_is_named_and_nothing_is_opened(tmp_path: Path) -> None:
    missing = tmp_path / "gone"
    async with open_rig(tmp_path, default_workspace=str(missing)) as rig:
        await rig.channel.say("hello")
        assert str(missing) in await rig.until_said("does not exist")
        (turn,) = await rig.until_ended()
        assert turn.status == "failed"
        assert rig.engine.briefs == []


class UnopenableEngine(PuppetEngine):
    # pyrefly: ignore [missing-override-decorator]
    async def __aenter__(self) -> UnopenableEngine:
        raise OSError("no such program")


async def test_an_engine_that_cannot_start_takes_nothing_down(tmp_path: Path) -> None:
    engine = PuppetEngine()
    engines = {EngineId("broken"): UnopenableEngine(), PUPPET: engine}
    names = {"puppet": PUPPET, "broken": EngineId("broken")}
    async with open_rig(tmp_path, engine, engines=engines, engine_names=names) as rig:
        await rig.channel.say("one")
        await rig.until_said("you said: one")
        await rig.channel.say("/engine broken fresh")
        await rig.channel.say("two")
        await rig.until_said("'broken' is not available")
        assert ("engine.open_failed", "broken") in [(event, f.get("engine")) for event, f in rig.logged]


class UnclosableEngine(PuppetEngine):
    # pyrefly: ignore [missing-override-decorator]
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        await super().__aexit__(kind, error, trace)
        raise OSError("will not close")


async def test_an_engine_that_will_not_close_does_not_spoil_the_shutdown(tmp_path: Path) -> None:
    async with open_rig(tmp_path, UnclosableEngine()) as rig:
        await rig.channel.say("one")
        await rig.until_said("you said: one")
    assert rig.error is None
    assert ("gateway.stopped", {}) in rig.logged


class StuckEngine(PuppetEngine):
    """Hangs where it is told to: while it opens, or while it closes."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        self.stuck = anyio.Event()

    # pyrefly: ignore [missing-override-decorator]
    async def __aenter__(self) -> StuckEngine:
        if self.where == "open":
            self.stuck.set()
            await anyio.sleep_forever()
        return await super().__aenter__()

    # pyrefly: ignore [missing-override-decorator]
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        ended = await super().__aexit__(kind, error, trace)
        self.stuck.set()
        await anyio.sleep_forever()
        return ended


async def test_a_shutdown_waits_for_no_engine_that_is_still_opening(tmp_path: Path) -> None:
    engine = StuckEngine("open")
    with anyio.fail_after(60):
        async with open_rig(tmp_path, engine, until_ready=False):
            await engine.stuck.wait()


async def test_an_engine_that_hangs_while_it_closes_is_given_up(tmp_path: Path) -> None:
    engine = StuckEngine("close")
    async with open_rig(tmp_path) as rig:
        rig.ports.engines = {PUPPET: engine}
        with anyio.fail_after(60):
            async with EngineHost(rig.ports, close_within_s=0.05).open_all(anyio.Event()):
                assert PUPPET in rig.ports.engines
        assert engine.stuck.is_set()
        assert ("engine.given_up", {"engine": PUPPET, "deed": "close"}) in rig.logged


async def test_an_engine_that_breaks_is_opened_again_and_the_others_never_notice(tmp_path: Path) -> None:
    other, broken = PuppetEngine(), PuppetEngine()
    other_id = EngineId("other")
    names = {"puppet": PUPPET, "other": other_id}
    async with open_rig(
        tmp_path, broken, engines={PUPPET: broken, other_id: other}, engine_names=names
    ) as rig:
        await rig.channel.say("/engine other", "second")
        await rig.channel.say("one")
        await rig.until_said("you said: one")

        async def die() -> None:
            raise RuntimeError("the server is gone")

        broken.tasks.start_soon(die)
        await rig.until_true(lambda: any(event == "engine.broke" for event, _ in rig.logged))
        await rig.channel.say("two", "second")
        await rig.until_said("you said: two")
        await rig.until_true(lambda: PUPPET in rig.ports.engines)
        await rig.channel.say("three")
        await rig.until_said("you said: three")


class LingeringSession(PuppetSession):
    """Its process stays for a while after the result: the stream takes its time to close."""

    let_go: anyio.Event

    # pyrefly: ignore [missing-override-decorator]
    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        try:
            async for event in super().run(prompt):
                yield event
        finally:
            with anyio.CancelScope(shield=True):
                await self.let_go.wait()


async def test_an_engine_that_lingers_has_answered_but_the_next_message_waits_until_it_is_closed(
    tmp_path: Path,
) -> None:
    LingeringSession.let_go = anyio.Event()
    engine = PuppetEngine(session=LingeringSession)
    async with open_rig(tmp_path, engine) as rig:
        await rig.channel.say("one")
        await rig.until_said("you said: one")
        (turn,) = await rig.until_ended()
        assert (turn.status, engine.open_sessions) == ("done", 1)
        await rig.channel.say("two")
        await rig.channel.say("elsewhere", "other")
        await rig.until_said("you said: elsewhere")
        assert [strings.prompt.text for strings in engine.turns] == ["one", "elsewhere"]
        LingeringSession.let_go.set()
        await rig.until_said("you said: two")


async def test_silence_is_a_hang_and_is_told(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(deaf, echo), clock=clock, hang_after_s=60) as rig:
        await rig.channel.say("one")
        turn = await rig.until_live()
        await rig.until_true(lambda: rig.engine.turns)
        await anyio.wait_all_tasks_blocked()
        await clock.advance(59)
        rig.poke()
        assert (await rig.until_live()).id == turn.id
        await clock.advance(1)
        rig.poke()
        assert "60 s" in await rig.until_said("said nothing for")
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.failure and turn.failure.kind) == ("failed", "hang")
        await rig.channel.say("two")
        await rig.until_said("you said: two")


async def test_an_engine_that_never_opens_hangs_too_and_can_be_stopped(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = PuppetEngine(opening=anyio.sleep_forever)
    async with open_rig(tmp_path, engine, clock=clock, hang_after_s=60) as rig:
        await rig.channel.say("one")
        await rig.until_live(begun=False)
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await rig.channel.say("two")
        await rig.until_true(lambda: len(engine.briefs) == 2)  # whoever watches it looks at the clock by then
        await clock.advance(61)
        rig.poke()
        (_, turn) = await rig.until_ended(2)
        assert (turn.status, turn.failure and turn.failure.kind) == ("failed", "hang")


async def test_a_silent_tool_is_no_hang(tmp_path: Path) -> None:
    clock, go = FakeClock(), anyio.Event()

    async def long_build(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await go.wait()
        await strings.tool_done()
        await strings.end("built")

    async with open_rig(tmp_path, PuppetEngine(long_build), clock=clock, hang_after_s=60) as rig:
        await rig.channel.say("build")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.began)
        await clock.advance(600)
        rig.poke()
        go.set()
        await rig.until_said("built")
        assert [turn.status for turn in await rig.until_ended()] == ["done"]


class ClumsySession(PuppetSession):
    # pyrefly: ignore [missing-override-decorator]
    async def interrupt(self) -> None:
        raise RuntimeError("I do not know how")

    # pyrefly: ignore [missing-override-decorator]
    async def steer(self, prompt: Prompt) -> bool:
        raise RuntimeError("nor this")


async def test_an_engine_that_raises_when_steered_or_stopped_is_stopped_without_its_help(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(deaf, echo, session=ClumsySession), busy="steer") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("two")
        await rig.until_said("could not take your message")
        await rig.channel.say("/stop")
        turns = await rig.until_ended(2)
        assert [turn.status for turn in turns] == ["cancelled", "done"]
        await rig.until_said("you said: two")


async def test_an_engine_without_any_power_can_still_be_stopped(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(deaf, session=BareSession)) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await rig.until_true(lambda: rig.engine.open_sessions == 0)


class FussyEngine(PuppetEngine):
    """Its sessions live in a task group: whatever is entered here must be left in order."""

    @asynccontextmanager
    # pyrefly: ignore [missing-override-decorator]
    async def open(self, brief: Brief) -> AsyncIterator[BareSession]:
        async with anyio.create_task_group() as tasks, super().open(brief) as session:
            tasks.start_soon(anyio.sleep_forever)
            yield session
            tasks.cancel_scope.cancel()


async def test_a_session_may_own_a_task_group(tmp_path: Path) -> None:
    async with open_rig(tmp_path, FussyEngine(echo, deaf)) as rig:
        await rig.channel.say("one")
        await rig.until_said("you said: one")
        await rig.channel.say("two")
        await rig.until_true(lambda: len(rig.engine.turns) == 2)
        await rig.channel.say("/stop")
        assert [turn.status for turn in await rig.until_ended(2)] == ["done", "cancelled"]


async def test_the_token_of_a_quick_turn_is_kept(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("one")
        await rig.until_ended()
        await rig.channel.say("two")
        await rig.until_ended(2)
        first, second = rig.engine.briefs
        assert first.resume is None
        assert second.resume is not None
        assert second.resume.value == "token"
