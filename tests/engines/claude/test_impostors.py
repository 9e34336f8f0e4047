"""Programs that speak as Claude Code does and misbehave: a leaking gate, nonsense, silence, ten thousand calls."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.engines.claude.api import open_api, say
from tests.engines.claude.impostor import VERSION
from tests.engines.claude.rig import Rig, command_of, end_of, notices_of, read
from tests.runtime.rig import open_rig

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Answerable, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Asked, EngineEvent, ToolFinished
from pilothouse.core.ids import AskId, EngineId
from pilothouse.core.policy import ApprovalMode
from pilothouse.engines.claude.engine import ClaudeEngine
from pilothouse.engines.claude.gate import Gate, ask_about_every_call
from pilothouse.engines.claude.gate_proof import PROOFS, remember_proof
from pilothouse.engines.claude.launch import plan_launch
from pilothouse.engines.claude.process import LEAKS, ClaudeProcess, SessionSettings
from pilothouse.engines.wakes import WokenTurn
from pilothouse.processes import Launcher

IMPOSTOR = Path(__file__).with_name("impostor.py")
pytestmark = pytest.mark.slow

CALLS = 3_000
SESSION = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    with open_api(say("nobody asks")) as api:
        yield Rig(tmp_path, api)


def engine(rig: Rig, *mode: str) -> ClaudeEngine:
    return rig.engine(command=program(rig, *mode))


def program(rig: Rig, *mode: str) -> str:
    """Proven, as if it behaved otherwise since."""
    path = rig.workspace.parent / "claude"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} {IMPOSTOR} {" ".join(mode)} "$@"\n')
    path.chmod(0o755)
    remember_proof(rig.state / PROOFS, str(path), VERSION)
    return str(path)


async def test_a_call_that_ran_without_passing_the_gate_ends_its_process_and_its_turn(rig: Rig) -> None:
    async with engine(rig, "leaky") as leaky:
        async with leaky.open(rig.brief()) as session:
            events = await read(session)
        assert rig.pids() == []
    end = end_of(events)
    assert (end.outcome, end.failure and end.failure.text) == ("failed", LEAKS.text)
    assert len([event for event in events if isinstance(event, ToolFinished) and event.ok]) <= 1
    assert "done" not in end.answer


@pytest.mark.parametrize(
    ("tool", "outcome"),
    [
        ("Read", "failed"),
        ("Grep", "failed"),
        ("WebFetch", "failed"),
        ("Agent", "failed"),
        ("mcp__x__y", "failed"),
        ("TodoWrite", "completed"),
        ("web_search", "completed"),  # at the API, where nobody here can hold it
    ],
)
async def test_whatever_is_judged_at_the_gate_must_have_been_there(rig: Rig, tool: str, outcome: str) -> None:
    async with engine(rig, "peeks", tool) as odd, odd.open(rig.brief()) as session:
        assert end_of(await read(session)).outcome == outcome


async def test_in_full_access_nobody_holds_the_gate_and_it_may(rig: Rig) -> None:
    async with engine(rig, "leaky") as leaky, leaky.open(rig.brief(approval_mode="full-access")) as session:
        assert end_of(await read(session)).outcome == "completed"


async def test_calls_that_pass_the_gate_trip_nothing(rig: Rig) -> None:
    async with engine(rig, "honest") as honest, honest.open(rig.brief()) as session:
        events = await read(session)
    assert end_of(events).outcome == "completed"


async def test_nonsense_on_stdout_costs_notices_and_nothing_else(rig: Rig) -> None:
    async with engine(rig, "garbage") as odd, odd.open(rig.brief(approval_mode="full-access")) as session:
        for _ in range(3):
            events = await read(session)
            assert (end_of(events).outcome, end_of(events).answer) == ("completed", "done")
            assert len(notices_of(events)) < 10
    assert all(len(text) < 1000 for text in notices_of(events))


async def test_a_program_that_never_answers_is_given_up(rig: Rig) -> None:
    brief, environment, taken = rig.brief(), rig.environment(), list[str]()
    config = rig.config(command=program(rig, "mute"))
    launch = plan_launch(config, brief, environment, cwd=brief.workspace, new_session=SESSION, extra={})
    settings = SessionSettings(Gate(ask_about_every_call, brief.workspace))
    mute = ClaudeProcess(Launcher(), launch, settings, rig.host().log, no_wake, taken.append, start_s=0.5)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(mute.run)
        with pytest.raises(EngineError) as caught:
            await mute.wait_ready()
    assert caught.value.failure.kind == "hang"
    assert rig.pids() == []


async def test_every_process_is_started_through_the_jail(rig: Rig) -> None:
    starts: list[ProcessStart] = []

    def jail(start: ProcessStart) -> AbstractAsyncContextManager[ProcessStart]:
        starts.append(start)
        return nullcontext(start)

    host = msgspec.structs.replace(rig.host(), jail=jail)
    async with (
        ClaudeEngine(rig.config(command=program(rig)), host) as jailed,
        jailed.open(rig.brief()) as session,
    ):
        await read(session)
    assert {start.name for start in starts} == {"claude version", "claude session"}
    assert [start.workspace for start in starts if start.name == "claude session"] == [str(rig.workspace)]


async def test_one_that_waits_for_an_answer_does_not_hang(rig: Rig) -> None:
    ids: list[AskId] = []
    asked, ended = anyio.Event(), anyio.Event()
    quiet = rig.engine(command=program(rig, "asks"), hang_after_s=1.5)
    async with quiet, quiet.open(rig.brief()) as session, anyio.create_task_group() as tasks:

        def look(event: EngineEvent) -> None:
            if isinstance(event, Asked):
                ids.append(event.ask.id)
                asked.set()

        async def answer_late() -> None:
            await asked.wait()
            with anyio.move_on_after(3.5):
                await ended.wait()
            assert isinstance(session, Answerable)
            await session.answer(ids[-1], Decision("allow"))

        tasks.start_soon(answer_late)
        end = end_of(await read(session, when=look))
        ended.set()
    assert (end.outcome, end.answer) == ("completed", "done")


def no_wake(process: ClaudeProcess) -> WokenTurn:
    raise AssertionError("it never said a word")


async def test_one_that_does_not_take_another_model_is_replaced(rig: Rig) -> None:
    async with engine(rig, "stubborn") as stubborn:
        async with stubborn.open(rig.brief(model="a")) as session:
            token = end_of(await read(session)).resume
        async with stubborn.open(rig.brief(resume=token, model="b")) as session:
            assert end_of(await read(session)).outcome == "completed"
            (pid,) = rig.pids()
            assert "--model b" in command_of(pid)
    assert any(name == "process.refused" for name, _ in rig.logged)


async def test_who_is_cancelled_while_a_model_is_changed_leaves_no_process_that_nobody_has(rig: Rig) -> None:
    async with engine(rig, "deaf") as deaf:
        async with deaf.open(rig.brief(model="a")) as session:
            token = end_of(await read(session)).resume
        with anyio.move_on_after(0.3):
            async with deaf.open(rig.brief(resume=token, model="b")):
                raise AssertionError("it never agrees")
        with anyio.fail_after(60):
            while rig.pids():
                await anyio.sleep(0.02)
        async with deaf.open(rig.brief(resume=token, model="a")) as session:
            assert end_of(await read(session)).outcome == "completed"


def full_access(workspace: str) -> ApprovalMode:
    return "full-access"


@pytest.mark.timeout(180)
async def test_thousands_of_calls_in_one_turn_take_bounded_time_and_memory(rig: Rig) -> None:
    """Through the gate, the engine and a whole gateway, into the store."""
    before_kb, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    claude = EngineId("claude")
    async with open_rig(
        rig.workspace.parent,
        engines={claude: engine(rig, "calls", str(CALLS))},
        default_engine=claude,
        default_workspace=str(rig.workspace),
        mode_in=full_access,
    ) as house:
        await house.channel.say("go")
        await house.until_said("done", 120)
        turn = (await house.until_ended(1))[0]
        finished = await house.store.read(
            lambda tx: sum(isinstance(row.event, ToolFinished) for row in tx.events.of_turn(turn.id))
        )
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / 1024
    assert (turn.status, finished) == ("done", CALLS)
    assert grown_mb < 50, f"{grown_mb:.0f} MB"
    assert time.monotonic() - began < 120
