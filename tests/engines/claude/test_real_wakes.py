"""Turns that the real CLI begins by itself, at the engine's own door: told once, kept, taken in by whoever comes first."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.claude.api import Reply, Request, ScriptedApi, call, say, wait_for
from tests.engines.claude.rig import Rig, end_of, read

from pilothouse.core.engine import Wake
from pilothouse.core.event import EngineEvent, ResumeToken, SessionStarted, TurnEnded
from pilothouse.engines.claude.engine import ClaudeEngine

pytestmark = pytest.mark.slow

FULL: dict[str, Any] = {"approval_mode": "full-access"}


class Woken:
    """An engine whose session "one" has answered, and then gone on by itself."""

    def __init__(self, rig: Rig, engine: ClaudeEngine, wake: Wake, resume: ResumeToken) -> None:
        self.rig = rig
        self.wake = wake
        self._engine = engine
        self._resume = resume

    async def take(self, text: str = "", **brief: Any) -> list[EngineEvent]:
        plain: dict[str, Any] = {"resume": self._resume, **FULL}
        async with self._engine.open(self.rig.brief(**(plain | brief))) as session:
            return await read(session, text)


@asynccontextmanager
async def woken(folder: Path, *, stands_still: threading.Event | None = None) -> AsyncIterator[Woken]:
    job = call("Bash", command="echo; sleep 2", description="the job", run_in_background=True)

    def model(request: Request) -> Reply:
        if "hello there" in request.text:
            return say("hello to you")
        if "task-notification" in request.text:
            return Reply([{"text": "the job is done"}, *([wait_for(stands_still)] if stands_still else [])])
        return say("started it") if request.tool_results else job

    with ScriptedApi(model).serving() as api:
        rig = Rig(folder, api, background_tasks=True, tools=["Bash"])
        async with rig.engine() as engine:
            async with engine.open(rig.brief(**FULL)) as session:
                resume = end_of(await read(session)).resume
            assert resume is not None
            with anyio.fail_after(60):
                wake = await anext(engine.wakes())
            yield Woken(rig, engine, wake, resume)
    assert rig.leftovers() == []


async def test_it_is_told_with_its_session_and_its_cause_and_had_by_its_id(tmp_path: Path) -> None:
    async with woken(tmp_path) as one:
        assert (one.wake.session_id, one.wake.cause) == ("one", "A background task ended.")
        events = await one.take(wake=one.wake.id)
        assert (end_of(events).outcome, end_of(events).answer) == ("completed", "the job is done")
        again = await one.take(wake=one.wake.id)
        assert [type(event) for event in again] == [SessionStarted, TurnEnded]
        assert (end_of(again).outcome, end_of(again).answer) == ("completed", "")
        assert end_of(await one.take("hello there")).answer == "hello to you"


async def test_a_message_that_comes_first_takes_it_in_and_is_answered(tmp_path: Path) -> None:
    async with woken(tmp_path) as one:
        events = await one.take("hello there")
        assert end_of(events).answer == "the job is done\n\nhello to you"
        assert end_of(await one.take(wake=one.wake.id)).answer == ""


async def test_a_message_that_meets_it_in_its_middle_waits_for_its_own_answer(tmp_path: Path) -> None:
    go_on = threading.Event()
    async with woken(tmp_path, stands_still=go_on) as one, anyio.create_task_group() as tasks:

        async def let_go() -> None:
            await anyio.sleep(0.3)
            go_on.set()

        tasks.start_soon(let_go)
        events = await one.take("hello there")
        assert end_of(events).answer.startswith("the job is done")
        assert end_of(events).answer.endswith("hello to you")
        assert sum(isinstance(event, TurnEnded) for event in events) == 1


async def test_of_a_process_that_died_what_it_said_is_still_to_be_had(tmp_path: Path) -> None:
    stuck = threading.Event()
    async with woken(tmp_path, stands_still=stuck) as one:
        for pid in one.rig.pids():
            os.kill(pid, 9)
        with anyio.fail_after(60):
            while one.rig.pids():
                await anyio.sleep(0.02)
        events = await one.take(wake=one.wake.id)
        failure = end_of(events).failure
        assert failure is not None and failure.kind == "crash"
        stuck.set()


async def test_one_that_nobody_knows_is_gone_and_asks_no_model(tmp_path: Path) -> None:
    async with woken(tmp_path) as one:
        calls = len(one.rig.api.main)
        events = await one.take(wake="of-another-life")
        failure = end_of(events).failure
        assert failure is not None and "has ended" in failure.text
        await one.take(wake=one.wake.id)
        assert len(one.rig.api.main) <= calls + 1, "the wake's own"
