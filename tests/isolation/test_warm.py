"""A process that is kept for further turns is used while its isolation stays what a new one would get, and no longer."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.engines.acp.rig import Scripted as ScriptedAgent
from tests.engines.claude.api import open_api, say
from tests.engines.claude.rig import Rig as ClaudeRig
from tests.engines.claude.test_impostors import program
from tests.engines.codex.rig import end_of, read
from tests.engines.codex.test_faults import Scripted as ScriptedCodex
from tests.engines.opencode.test_faults import Scripted as ScriptedOpenCode
from tests.isolation.canary import Stage, jails, need_jail
from tests.isolation.test_jail import output, start
from tests.mcp_client.rig import Rig as McpRig
from tests.mcp_client.rig import program as mcp_program

from pilothouse.core.ask import Ask
from pilothouse.core.engine import PORT, Brief, Engine, EngineHost, ProcessStart
from pilothouse.core.ids import SessionId
from pilothouse.core.isolation import OPEN, Isolation
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.engine import ClaudeEngine
from pilothouse.engines.link_owner import OTHER_ISOLATION
from pilothouse.processes import Launcher

pytestmark = pytest.mark.anyio

JAIL = Isolation("jail")
HOLDING = Isolation("jail", network="none")
STEPS = (
    OPEN,
    JAIL,
    Isolation("jail", network="model"),
    Isolation("jail", network="model", allow_hosts=("example.org",)),
    OPEN,
)


class Shut:
    """Settings that a test changes, and the isolation of each start. Nothing is jailed: the programs are scripted."""

    def __init__(self) -> None:
        self.now = OPEN
        self.started: list[Isolation] = []
        self.judged: list[Isolation | None] = []

    def host(self, host: EngineHost) -> EngineHost:
        return msgspec.structs.replace(host, jail=self.open, isolation=self.isolation, judge=self.judge)

    async def judge(self, ask: Ask, site: Site) -> Ruling:
        self.judged.append(site.isolation)
        return Ruling("allow", "a rule of the test")

    def isolation(self, workspace: str) -> Isolation:
        return self.now

    @asynccontextmanager
    async def open(self, start: ProcessStart) -> AsyncGenerator[ProcessStart, None]:
        if start.isolation is not None:
            self.started.append(start.isolation)
        argv = [word.replace(PORT, "0") for word in start.argv]
        for folder in (one for one in start.needs.mounts.values() if one.endswith("/sockets")):
            argv = [word.replace("unix:///tmp", f"unix://{folder}") for word in argv]
        yield msgspec.structs.replace(start, argv=argv)


async def talk(engine: Any, brief: Brief, text: str = "say hello") -> Brief:
    """One turn; return the brief that goes on with its session."""
    async with engine.open(brief) as session:
        end = end_of(await read(session, text))
    assert end.outcome == "completed"
    return msgspec.structs.replace(brief, resume=end.resume)


async def talk_through(shut: Shut, engine: Engine, brief: Brief) -> None:
    """Two turns under each of the settings."""
    for shut.now in STEPS:
        brief = await talk(engine, await talk(engine, brief))


async def test_an_acp_agent_is_started_anew(tmp_path: Path) -> None:
    scripted, shut = ScriptedAgent(tmp_path), Shut()
    scripted.host = shut.host(scripted.host)
    async with scripted.engine() as engine:
        await talk_through(shut, engine, scripted.brief())
    assert shut.started == [*STEPS]
    assert scripted.leftovers() == []


@pytest.mark.slow
async def test_claude_is_started_anew(tmp_path: Path) -> None:
    with open_api(say("nobody asks")) as api:
        rig, shut = ClaudeRig(tmp_path, api), Shut()
        command = program(rig, "honest")
        async with ClaudeEngine(rig.config(command=command), shut.host(rig.host())) as engine:
            await talk_through(shut, engine, rig.brief(approval_mode="full-access"))
    assert shut.started == [*STEPS]


async def test_codex_has_a_new_server_and_none_with_the_former_isolation(tmp_path: Path) -> None:
    scripted, shut = ScriptedCodex(tmp_path), Shut()
    scripted.host = shut.host(scripted.host)
    brief = scripted.brief()
    async with scripted.engine() as engine:
        for shut.now in STEPS:
            for _ in range(2):
                await talk(engine, brief, "Hello")
    assert shut.started == [*STEPS[:-1]], "the server without a jail is kept"


async def test_opencode_has_a_new_server_and_none_with_the_former_isolation(tmp_path: Path) -> None:
    scripted, shut = ScriptedOpenCode(tmp_path), Shut()
    scripted.host = shut.host(scripted.host)
    async with scripted.build() as engine:
        for shut.now in STEPS:
            for _ in range(2):
                await talk(engine, scripted.brief())
    assert shut.started == [*STEPS[:-1]], "the server without a jail is kept"
    assert scripted.leftovers() == []


async def test_a_turn_on_a_server_with_the_former_isolation_ends_and_says_why(tmp_path: Path) -> None:
    scripted, shut = ScriptedOpenCode(tmp_path), Shut()
    scripted.host = shut.host(scripted.host)
    shut.now = JAIL
    async with scripted.build() as engine, engine.open(scripted.brief()) as session:
        events = session.run(Prompt("hang"))
        await anext(events)
        shut.now = msgspec.structs.replace(JAIL, network="none")
        with anyio.fail_after(60):
            await talk(engine, scripted.brief("two"))
            rest = [event async for event in events]
        failure = end_of(rest).failure
        assert failure is not None
        assert failure.text == OTHER_ISOLATION.text


async def judge_after_a_change(shut: Shut, engine: Engine, brief: Brief, text: str) -> None:
    """Change the settings between the start of a process and its first call."""
    for before, then in ((OPEN, HOLDING), (HOLDING, OPEN)):
        shut.now = before
        shut.judged.clear()
        async with engine.open(msgspec.structs.replace(brief, session_id=SessionId(then.kind))) as session:
            shut.now = then
            assert end_of(await read(session, text)).outcome == "completed"
        assert {*shut.judged} == {before}


async def test_calls_are_judged_by_the_isolation_that_their_process_was_started_with(tmp_path: Path) -> None:
    shut = Shut()
    for name in ("acp", "codex", "opencode"):
        (tmp_path / name).mkdir()
    agent, codex = ScriptedAgent(tmp_path / "acp"), ScriptedCodex(tmp_path / "codex")
    opencode = ScriptedOpenCode(tmp_path / "opencode")
    for scripted in (agent, codex, opencode):
        scripted.host = shut.host(scripted.host)
    async with agent.engine() as engine:
        await judge_after_a_change(shut, engine, agent.brief(), "run make")
    async with codex.engine() as engine:
        await judge_after_a_change(shut, engine, codex.brief(), "ask")
    async with opencode.build() as engine:
        await judge_after_a_change(shut, engine, opencode.brief(), opencode.ask_prompt)


@pytest.mark.slow
async def test_calls_of_claude_are_judged_by_the_isolation_of_their_process(tmp_path: Path) -> None:
    with open_api(say("nobody asks")) as api:
        rig, shut = ClaudeRig(tmp_path, api), Shut()
        command = program(rig, "honest")
        async with ClaudeEngine(rig.config(command=command), shut.host(rig.host())) as engine:
            await judge_after_a_change(shut, engine, rig.brief(), "Hello")


async def test_a_program_of_an_mcp_server_is_started_anew(tmp_path: Path) -> None:
    shut = Shut()
    rig = McpRig(tmp_path, {"shop": mcp_program()}, launcher=Launcher(shut.open), isolation=shut.isolation)
    async with rig.connections() as connections:
        for shut.now in STEPS:
            for _ in range(2):
                with connections.lease(str(tmp_path), trusted=True, own={}) as tools:
                    await tools.settle(100.0)
                    assert [one.state for one in tools.statuses()] == ["ready"]
    assert shut.started == [*STEPS]


async def test_a_process_gets_the_isolation_that_its_engine_was_told(stage: Stage, tmp_path: Path) -> None:
    """A reload between the two must not leave an open process under the key of a jailed one."""
    need_jail()
    made = jails(stage, tmp_path, kind="none")
    script = f"cat {stage.store} || echo hidden"
    told = msgspec.structs.replace(start(stage, script), isolation=JAIL)
    assert "hidden" in await output(Launcher(made.open), told)
    assert "the store" in await output(Launcher(made.open), start(stage, script))
