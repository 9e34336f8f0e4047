"""Everything that a bad engine does, done by a real process. The `rig` fixture checks that nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.script.rig import WITHIN_S, Rig, read

from pilothouse.core.errors import EngineError
from pilothouse.core.event import (
    EngineEvent,
    Notice,
    TextSet,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.script.engine import ScriptEngine

pytestmark = pytest.mark.anyio

Steps = list[dict[str, Any]]


def end_of(events: list[EngineEvent]) -> TurnEnded:
    end = events[-1]
    assert isinstance(end, TurnEnded)
    return end


def failure_of(events: list[EngineEvent]) -> Failure:
    failure = end_of(events).failure
    assert failure is not None
    return failure


def when_hung(act: Callable[[], Any]) -> Callable[[EngineEvent], Any]:
    """The player tells when it hangs, and obeys nothing from then on."""
    return lambda event: act() if isinstance(event, Notice) and "hangs now" in event.text else None


async def play(rig: Rig, *steps: dict[str, Any], stop: bool = False, **config: Any) -> list[EngineEvent]:
    async with rig.engine(list(steps), **config) as engine, engine.open(rig.brief()) as session:
        return await read(session, when=when_hung(session.interrupt) if stop else None)


@pytest.mark.parametrize("process", ["shared", "per-session"])
@pytest.mark.parametrize("before", [[], [{"ignore_sigterm": True}], [{"spawn": "escaped child"}]])
async def test_a_hung_process_is_ended_after_the_grace_of_a_stop(
    rig: Rig, process: str, before: Steps
) -> None:
    steps: Steps = [*before, {"hang": True}]
    events = await play(rig, *steps, stop=True, process=process, stop_grace_s=0.5)
    assert end_of(events).outcome == "cancelled"


@pytest.mark.parametrize("before", [[], [{"ignore_sigterm": True}, {"spawn": "escaped child"}]])
async def test_leaving_a_hung_turn_frees_everything(rig: Rig, before: Steps) -> None:
    steps: Steps = [*before, {"hang": True}]
    async with rig.engine(steps, stop_grace_s=0.5) as engine:
        with anyio.fail_after(WITHIN_S):
            async with engine.open(rig.brief()) as session:
                async for event in session.run(Prompt("go")):
                    if isinstance(event, Notice):
                        break
        assert rig.pids() == []


async def test_being_cancelled_at_a_hung_turn_frees_everything(rig: Rig) -> None:
    async with rig.engine([{"hang": True}], stop_grace_s=0.5) as engine:
        with anyio.CancelScope() as scope:
            async with engine.open(rig.brief()) as session:
                await read(session, when=when_hung(scope.cancel))
        assert scope.cancelled_caught
        assert rig.pids() == []


def when_said(act: Callable[[], None]) -> Callable[[EngineEvent], None]:
    return lambda event: act() if isinstance(event, TextSet) else None


async def test_the_other_turns_of_a_hung_process_end_with_the_reason(rig: Rig) -> None:
    path = rig.write([{"say": "waiting"}, {"sleep": 600}])
    path.write_text(path.read_text() + '\n[[turn]]\nmatch = "hang"\nsteps = [{ hang = true }]')
    ends: dict[str, list[EngineEvent]] = {}
    async with rig.engine(script=str(path), stop_grace_s=0.5) as engine:
        waiting = anyio.Event()

        async def bystander() -> None:
            async with engine.open(rig.brief("bystander")) as session:
                ends["bystander"] = await read(session, when=when_said(waiting.set))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bystander)
            await waiting.wait()
            async with engine.open(rig.brief("culprit")) as session:
                ends["culprit"] = await read(session, "hang", when_hung(session.interrupt))
        assert end_of(ends["culprit"]).outcome == "cancelled"
        assert failure_of(ends["bystander"]).kind == "hang"
        assert "did not stop when asked" in failure_of(ends["bystander"]).text
        await assert_works(engine, rig)


async def assert_works(engine: ScriptEngine, rig: Rig) -> None:
    rig.write([{"say": "fine"}])
    async with engine.open(rig.brief("after")) as session:
        assert end_of(await read(session)).answer == "fine"


async def test_a_process_that_hangs_after_its_result_has_given_it(rig: Rig) -> None:
    steps: Steps = [{"say": "done"}, {"hang": True, "after_result": True}]
    async with rig.engine(steps, open_s=4.0, stop_grace_s=0.5) as engine:
        async with engine.open(rig.brief()) as session:
            assert end_of(await read(session)).answer == "done"
        with pytest.raises(EngineError) as caught:
            async with engine.open(rig.brief()):
                pass
        assert caught.value.failure.kind == "hang"
        await assert_works(engine, rig)


async def test_leaving_the_engine_ends_a_process_that_hangs_after_its_result(rig: Rig) -> None:
    steps: Steps = [{"ignore_sigterm": True}, {"say": "done"}, {"hang": True, "after_result": True}]
    assert end_of(await play(rig, *steps, stop_grace_s=0.3)).answer == "done"


@pytest.mark.parametrize("mid_line", [True, False])
@pytest.mark.parametrize(("code", "words"), [(3, "exit code 3"), (0, "exit code 0"), (-9, "signal 9")])
async def test_a_crash_ends_the_turn_with_code_and_last_words(
    rig: Rig, mid_line: bool, code: int, words: str
) -> None:
    crash = {"crash": code, "mid_line": mid_line, "stderr": "Traceback: oh no"}
    events = await play(rig, {"say": "so far"}, {"tool": "read"}, crash)
    failure = failure_of(events)
    assert failure.kind == "crash"
    assert words in failure.text
    assert "Traceback: oh no" in failure.detail
    assert sum(isinstance(event, ToolFinished) for event in events) == 1


async def test_a_crash_within_a_tool_closes_it_and_keeps_the_token(rig: Rig) -> None:
    path = rig.write([{"say": "next time"}])
    path.write_text(path.read_text() + '\n[[turn]]\nmatch = "crash"\nsteps = [{ crash = 1 }]')
    async with rig.engine(script=str(path)) as engine, engine.open(rig.brief()) as session:
        crashed = end_of(await read(session, "crash"))
        assert crashed.outcome == "failed"
        assert crashed.resume is not None
        assert crashed.resume.value.endswith(".0")
        again = await read(session, "please")
        assert end_of(again).answer == "next time"
        assert end_of(again).resume is not None


async def test_a_crash_ends_every_turn_of_the_process_and_the_next_one_starts_anew(rig: Rig) -> None:
    path = rig.write([{"say": "waiting"}, {"sleep": 600}])
    path.write_text(path.read_text() + '\n[[turn]]\nmatch = "crash"\nsteps = [{ crash = 7 }]')
    ends: list[list[EngineEvent]] = []
    async with rig.engine(script=str(path)) as engine:
        waiting = anyio.Event()

        async def bystander() -> None:
            async with engine.open(rig.brief("bystander")) as session:
                ends.append(await read(session, when=when_said(waiting.set)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bystander)
            await waiting.wait()
            async with engine.open(rig.brief("culprit")) as session:
                ends.append(await read(session, "crash"))
        assert [failure_of(events).kind for events in ends] == ["crash", "crash"]
        await assert_works(engine, rig)
    assert [event for event, _ in rig.logged].count("process.started") == 2


@pytest.mark.parametrize("ending", [{"say": "end"}, {"crash": 1}])
async def test_an_escaped_child_does_not_outlive_the_process(rig: Rig, ending: dict[str, Any]) -> None:
    await play(rig, {"spawn": "escaped child"}, ending, process="per-session")


async def test_garbage_leaves_its_neighbours_unharmed(rig: Rig) -> None:
    events = await play(rig, {"say": "before"}, {"garbage": 500}, {"say": "after"})
    assert end_of(events).answer == "before\n\nafter"
    assert [event.text for event in events if isinstance(event, TextSet)] == ["before", "after"]
    notices = [event for event in events if isinstance(event, Notice)]
    assert [notice.kind for notice in notices] == ["engine_noise"] * 2
    assert "499 more lines" in notices[1].text


FLOOD = 50_000_000
ROOM = 75 * 1024 * 1024


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.parametrize("into", ["tool", "lines", "line", "stderr"])
async def test_a_flood_stays_within_bounds(rig: Rig, into: str) -> None:
    before, most, updates = resident_bytes(), 0, 0
    last: EngineEvent | None = None
    steps: Steps = [{"flood": FLOOD, "into": into}, {"say": "survived"}]
    async with rig.engine(steps) as engine, engine.open(rig.brief()) as session:
        async for event in session.run(Prompt("flood")):
            updates += isinstance(event, ToolUpdated)
            most = max(most, resident_bytes())
            last = event
    assert isinstance(last, TurnEnded)
    assert last.answer == "survived"
    assert updates == (FLOOD // 65536 + 1 if into == "tool" else 0)
    assert most - before < ROOM


async def test_a_flood_can_be_interrupted(rig: Rig) -> None:
    async with rig.engine([{"flood": 1 << 40}]) as engine, engine.open(rig.brief()) as session:
        stop = session.interrupt
        events = await read(session, when=lambda event: stop() if isinstance(event, ToolStarted) else None)
    assert end_of(events).outcome == "cancelled"


async def test_a_flood_that_nobody_reads_can_be_left(rig: Rig) -> None:
    async with rig.engine([{"flood": 1 << 40}]) as engine:
        async with engine.open(rig.brief()) as session:
            async for event in session.run(Prompt("flood")):
                if isinstance(event, ToolUpdated):
                    break
        await assert_works(engine, rig)


async def test_a_turn_that_nobody_reads_is_given_up_for_the_others(rig: Rig) -> None:
    # The quick turn's answer comes when the flood has long filled the slow one's mailbox.
    path = rig.write([{"sleep": 2}, {"say": "fine"}])
    path.write_text(path.read_text() + f'\n[[turn]]\nmatch = "flood"\nsteps = [{{ flood = {1 << 40} }}]')
    async with rig.engine(script=str(path), stall_s=0.2) as engine, engine.open(rig.brief("slow")) as slow:
        stream = slow.run(Prompt("flood"))
        await anext(stream)
        async with engine.open(rig.brief("quick")) as quick:
            assert end_of(await read(quick)).answer == "fine"
        with anyio.fail_after(WITHIN_S):
            rest = [event async for event in stream]
        assert failure_of(rest).kind == "transport"
        assert end_of(await read(slow)).answer == "fine"


async def test_an_engine_that_was_not_entered_says_so(rig: Rig) -> None:
    engine = rig.engine([{"say": "x"}])
    with pytest.raises(EngineError, match="enter it first"):
        async with engine.open(rig.brief()):
            pass


async def test_a_second_turn_beside_the_first_is_refused_as_an_event(rig: Rig) -> None:
    async with rig.engine([{"say": "x"}, {"sleep": 600}]) as engine, engine.open(rig.brief()) as session:
        await anext(session.run(Prompt("first")))
        assert failure_of(await read(session, "second")).kind == "bad_request"
