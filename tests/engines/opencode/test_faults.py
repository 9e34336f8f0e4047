"""A server that crashes, drops its stream, says strange things or is none: every turn ends once, and the next one works.

The suite that every engine keeps runs here too, on the scripted server: the real one takes seconds to start.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.engines.codex.rig import end_of, notices_of, read
from tests.engines.opencode.server import Handler, Server, State

from pilothouse.core.engine import Brief, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken, TurnEnded
from pilothouse.core.ids import SessionId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.link import Exit, LinkPlan
from pilothouse.engines.opencode.config import OpenCodeConfig
from pilothouse.engines.opencode.engine import OpenCodeEngine
from pilothouse.engines.opencode.link import OpenCodeLink
from pilothouse.engines.opencode.session import OpenCodeSession
from pilothouse.processes import Launcher
from pilothouse.processes.procfs import read_process
from pilothouse.testing.engine import EngineConformance
from pilothouse.testing.hosts import engine_host, running_processes

SERVER = Path(__file__).parent / "server.py"


class Scripted:
    """An engine whose program is the scripted server, and the prompts of the suite."""

    tool_prompt = ""
    ask_prompt = "ask me"
    long_prompt = "hang"
    failing_prompt = "fail"
    bad_tokens = ("", "nonsense", "--help", "ses_00000000notthere")

    def __init__(self, folder: Path, fault: str = "", **config: Any) -> None:
        self.log = folder / "requests.jsonl"
        program = folder / "program"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SERVER}" "{self.log}" {fault}\n')
        program.chmod(0o755)
        self.host = engine_host(folder, environment={"PATH": "/usr/bin:/bin", "HOME": str(folder)})
        self.folder = folder
        plain: dict[str, Any] = {"command": str(program), "stop_grace_s": 5.0, "open_s": 60.0}
        self.config = OpenCodeConfig(**(plain | config))

    def build(self) -> OpenCodeEngine:
        return OpenCodeEngine(self.config, self.host)

    def brief(self, name: str = "one") -> Brief:
        return Brief(SessionId(name), str(self.folder))

    def prompt_saying(self, word: str) -> str:
        return f"say {word}"

    def leftovers(self) -> list[str]:
        return running_processes(self.host)

    def sent(self, end: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line for line in lines if line["path"].endswith(end)]


class TestScripted(EngineConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Scripted:
        return Scripted(tmp_path)


@asynccontextmanager
async def session_of(scripted: Scripted) -> AsyncIterator[OpenCodeSession]:
    async with scripted.build() as engine, engine.open(scripted.brief()) as session:
        yield session
    assert scripted.leftovers() == []


def failure_of(events: list[Any]) -> Failure:
    failure = end_of(events).failure
    assert failure is not None
    return failure


@pytest.mark.anyio
async def test_one_server_is_told_rules_and_model_and_survives_every_fault(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, model="other", provider="p")
    async with session_of(scripted) as session:
        assert end_of(await read(session, "say Hello")).answer == "Hello"
        assert end_of(await read(session, "early")).answer == "Late, but here."
        assert failure_of(await read(session, "silent")).text == "No such model"
        dropped = await read(session, "drop")
        assert end_of(dropped).answer == "Before and after"
        assert any("made again" in text for text in notices_of(dropped))
        assert failure_of(await read(session, "leak")).kind == "permission"
        crashed = failure_of(await read(session, "crash"))
        assert (crashed.kind, "exit code 3" in crashed.text) == ("crash", True)
        assert end_of(await read(session, "say Hello")).answer == "Hello"
    (made, *_), prompts = scripted.sent("/session"), scripted.sent("/prompt_async")
    rules = made["body"]["permission"]
    assert rules[0] == {"permission": "*", "pattern": "*", "action": "ask"}
    assert rules[-1] == {"permission": "plugin_tool", "pattern": "*", "action": "deny"}
    assert all(one["body"]["model"] == {"providerID": "p", "modelID": "other"} for one in prompts)
    assert all(one["login"] for one in prompts)
    assert scripted.sent("/global/dispose")


@pytest.mark.anyio
async def test_a_command_that_the_server_refuses_fails_its_turn(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path, owner_commands=True)) as session:
        failure = failure_of(await read(session, Prompt("/greet Ada", commands=True)))
        assert "no command greet" in failure.text
        assert end_of(await read(session, "say Hello")).answer == "Hello"


@pytest.mark.anyio
async def test_a_command_is_sent_again_after_its_server_died_unnoticed(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, owner_commands=True)
    async with session_of(scripted) as session:
        assert end_of(await read(session, "say Hello")).answer == "Hello"
        for name in scripted.leftovers():
            kill(int(name.removeprefix("process ")))
        again = await read(session, Prompt("/greet say Hello", commands=True))
    assert end_of(again).answer == "Hello"


def kill(pid: int) -> None:
    """Kill a process, and give nobody time to notice before it is dead."""
    os.kill(pid, signal.SIGKILL)
    while (found := read_process(pid)) is not None and found.alive:
        pass


class Unkept(Handler):
    """The scripted server, in a thread of the test; it keeps no connection but that of the events."""

    protocol_version = "HTTP/1.0"


@pytest.mark.anyio
async def test_a_request_that_a_server_cannot_get_fails_its_turn_and_no_other_task(tmp_path: Path) -> None:
    Unkept.state = State(str(tmp_path / "requests.jsonl"), "")
    server = Server(("127.0.0.1", 0), Unkept)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = engine_host(tmp_path, environment={"PATH": "/usr/bin:/bin"})
    says = f"echo listening on http://127.0.0.1:{server.server_address[1]}; exec sleep 600"
    start = ProcessStart("server", ["/bin/sh", "-c", says], str(tmp_path), host.environment, str(tmp_path))
    plan = LinkPlan("opencode", Launcher(host.jail), start, 1.0, 60.0, 60.0, False, host.log)
    link = OpenCodeLink(plan, "password")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(link.run)
        tasks.start_soon(link.listen)
        await link.wait_ready()
        port = link.lease("one")
        assert port is not None
        port.begin()
        server.shutdown()
        server.server_close()
        await link.run_aside(port, "/session/one/command", {}, "")
        refused = await port.mailbox.get()
        link.stop()
        Unkept.state.drop_streams()
        await link.ended.wait()
    await link.run_aside(port, "/session/one/command", {}, "")
    assert isinstance(refused, Failure)
    assert "did not answer when Pilothouse wanted to run the command" in refused.text
    assert isinstance(await port.mailbox.get(), Exit)


@pytest.mark.anyio
async def test_a_session_is_checked_for_our_rules_once_per_server_connection_and_rule_set(
    tmp_path: Path,
) -> None:
    scripted = Scripted(tmp_path)
    async with scripted.build() as engine:

        async def checks_before(text: str, token: ResumeToken | None, **changed: Any) -> int:
            """Play one turn in a lease of its own; return how often the session was looked at until now."""
            brief = msgspec.structs.replace(scripted.brief(), resume=token, **changed)
            async with engine.open(brief) as session:
                ends.append(end_of(await read(session, text)))
            return len(
                [one for one in scripted.sent(token.value if token else "?") if one["method"] == "GET"]
            )

        ends: list[TurnEnded] = []
        assert await checks_before("say Hello", None) == 0
        token = ends[-1].resume
        assert await checks_before("say Hello", token) == 0
        assert await checks_before("drop", token) == 0
        assert await checks_before("say Hello", token) == 1, "the stream of events was made again"
        assert await checks_before("say Hello", token) == 1
        assert await checks_before("say Hello", token, approval_mode="full-access") == 2
        assert await checks_before("crash", token) == 3
        assert await checks_before("say Hello", token) == 4, "another server"
    assert [end.outcome for end in ends] == [*["completed"] * 6, "failed", "completed"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("mute", "hang", "did not answer its start within 1 s"),
        ("exits", "crash", "exit code 3"),
        ("page", "bad_request", "answered with a web page, as OpenCode 2 does"),
        ("two", "bad_request", "This is OpenCode 2.1.3, and Pilothouse drives version 1."),
    ],
)
async def test_a_server_that_cannot_be_used_says_why(
    tmp_path: Path, fault: str, kind: str, words: str
) -> None:
    scripted = Scripted(tmp_path, fault, open_s=1.0 if fault == "mute" else 60.0)
    failures: list[Failure] = []
    async with scripted.build() as engine:
        try:
            async with engine.open(scripted.brief()):
                pass
        except EngineError as error:
            failures.append(error.failure)
    (failure,) = failures
    assert failure.kind == kind
    assert words in failure.text
    assert scripted.leftovers() == []
