"""A turn whose model is overloaded or used up begins again with the engine's fallback model."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings, echo, until_interrupted
from tests.runtime.rig import MAIN, open_rig

from pilothouse.bootstrap.app import fallback_models, open_app
from pilothouse.core.event import (
    Notice,
    PromptAdded,
    ResumeToken,
    SessionStarted,
    TextDelta,
    TurnEnded,
    well_formed,
)


async def refuse(strings: Strings) -> None:
    """Begins, and has no room."""
    await strings.start()
    await strings.fail("overloaded", "No room.")


@pytest.mark.parametrize("kind", ["overloaded", "quota"])
async def test_a_model_that_is_not_to_be_had_is_replaced_once_before_anything_was_said(
    tmp_path: Path, kind: str
) -> None:
    async def fail(strings: Strings) -> None:
        await strings.start("first")
        await strings.fail(kind, "No room.")

    async def answer(strings: Strings) -> None:
        await strings.start("second")
        await strings.say("Here I am.")
        await strings.end()

    engine = PuppetEngine(fail, answer, echo)
    async with open_rig(tmp_path, engine, fallback_models={PUPPET: "small"}) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.answer, turn.attempts) == ("done", "Here I am.", 1)
        logged = await rig.store.read(lambda tx: tx.events.of_turn(turn.id))
        events = [row.event for row in logged]
        assert list(well_formed(events)) == events
        assert [one.text for one in events if isinstance(one, Notice)] == [
            "No room. Going on with the model small."
        ]
        await rig.channel.say("again")
        await rig.until_ended(2)
        assert [brief.model for brief in engine.briefs] == [None, "small", None]
        assert engine.briefs[-1].resume == ResumeToken(PUPPET, "second", str(tmp_path))


@pytest.mark.parametrize("where", ["opening", "closing"])
async def test_a_stop_between_two_models_is_not_lost(tmp_path: Path, where: str) -> None:
    between = anyio.Event()

    async def linger() -> None:
        if where == "closing" or len(engine.briefs) == 2:
            between.set()
            await anyio.sleep_forever()

    engine = (
        PuppetEngine(refuse, echo, opening=linger)
        if where == "opening"
        else PuppetEngine(refuse, echo, closing=linger)
    )
    async with open_rig(tmp_path, engine, fallback_models={PUPPET: "small"}) as rig:
        await rig.channel.say("hello")
        with anyio.fail_after(20):
            await between.wait()
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.failure) == ("cancelled", None)
        assert (len(engine.turns), engine.open_sessions) == (1, 0)


async def test_a_message_between_two_models_steers_the_second(tmp_path: Path) -> None:
    opened, go = anyio.Event(), anyio.Event()

    async def wait() -> None:
        if len(engine.briefs) == 2:
            opened.set()
            await go.wait()

    engine = PuppetEngine(refuse, until_interrupted, opening=wait)
    async with open_rig(tmp_path, engine, fallback_models={PUPPET: "small"}, busy="steer") as rig:
        await rig.channel.say("hello")
        with anyio.fail_after(20):
            await opened.wait()
        await rig.channel.say("and this")
        for _ in range(20):  # the control looks meanwhile
            await rig.store.read(lambda _tx: None)
        go.set()
        await rig.until_true(lambda: [strings.steered for strings in engine.turns] == [[], ["and this"]])
        await rig.channel.say("/stop")


async def test_a_message_that_the_first_model_was_given_is_in_the_prompt_of_the_next_try(
    tmp_path: Path,
) -> None:
    async def refuse_late(strings: Strings) -> None:
        await strings.start()
        with anyio.fail_after(20):
            while not strings.steered:
                await anyio.sleep(0.01)
        await strings.fail("overloaded", "No room.")

    engine = PuppetEngine(refuse_late, echo)
    async with open_rig(tmp_path, engine, fallback_models={PUPPET: "small"}, busy="steer") as rig:
        await rig.channel.say("hello")
        await rig.until_live()
        await rig.channel.say("and this")
        await rig.until_ended()
        assert engine.turns[-1].prompt.text == "hello\n\nand this"


async def test_a_refused_attempt_that_began_no_session_leaves_the_start_to_the_second(tmp_path: Path) -> None:
    async def refuse_at_once(strings: Strings) -> None:
        await strings.fail("overloaded", "No room.")

    engine = PuppetEngine(refuse_at_once, echo)
    async with open_rig(tmp_path, engine, fallback_models={PUPPET: "small"}) as rig:
        await rig.channel.say("hello")
        (turn,) = await rig.until_ended()
        logged = await rig.store.read(lambda tx: tx.events.of_turn(turn.id))
        started, *others = [row.event for row in logged]
        assert started == SessionStarted(ResumeToken(PUPPET, "token", str(tmp_path)), model="m1")
        assert [type(one) for one in others] == [PromptAdded, Notice, TextDelta, TurnEnded]


async def test_a_turn_that_has_said_something_keeps_its_model(tmp_path: Path) -> None:
    async def fail(strings: Strings) -> None:
        await strings.start()
        await strings.tool()
        await strings.tool_done()
        await strings.fail("overloaded", "No room.")

    engine = PuppetEngine(fail, echo)
    async with open_rig(tmp_path, engine, fallback_models={PUPPET: "small"}) as rig:
        await rig.channel.say("hello")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked", "failed")))
        assert [brief.model for brief in engine.briefs] == [None]


async def test_an_engine_that_switches_by_itself_is_not_started_again_with_the_other_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILOTHOUSE_HOME", str(tmp_path))
    sections = [
        f'[engines.{engine}]\nfallback_model = "small"\n'
        for engine in ("claude", "codex", "native", "opencode")
    ]
    (tmp_path / "config.toml").write_text("\n".join(sections))
    async with open_app(on_terminal=False) as app:
        assert fallback_models(app) == {"codex": "small", "opencode": "small"}
