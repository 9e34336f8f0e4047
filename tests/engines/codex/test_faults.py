"""An app-server that hangs, crashes, repeats itself or says strange things: every turn ends once, and the next one works."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.engines.codex.app_server import THREAD
from tests.engines.codex.rig import Reaction, end_of, notices_of, read
from websockets.asyncio.client import ClientConnection, unix_connect

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.event import AskChanged, Asked, EngineEvent, TextDelta
from pilothouse.core.ids import SessionId
from pilothouse.core.turn import Prompt
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.engine import CodexEngine
from pilothouse.engines.codex.failures import IN_USE
from pilothouse.engines.codex.session import CodexSession
from pilothouse.testing.hosts import engine_host, running_processes

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).parent / "app_server.py"


class Scripted:
    """An engine whose program is the scripted app-server."""

    def __init__(self, folder: Path, fault: str = "", **config: Any) -> None:
        self.log = folder / "lines.jsonl"
        program = folder / "program"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{SERVER}" "{self.log}" "{fault}" "$@"\n')
        program.chmod(0o755)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
        self.host = engine_host(folder, environment=environment)
        self.folder = folder
        plain: dict[str, Any] = {"command": str(program), "stop_grace_s": 1.0, "open_s": 60.0}
        self.config = CodexConfig(**(plain | config))

    def engine(self) -> CodexEngine:
        return CodexEngine(self.config, self.host)

    def brief(self) -> Brief:
        return Brief(SessionId("one"), str(self.folder))

    def sent(self, method: str) -> list[dict[str, Any]]:
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line for line in lines if line.get("method") == method]

    def replies(self) -> list[dict[str, Any]]:
        lines = map(json.loads, self.log.read_text().splitlines())
        return [line for line in lines if "method" not in line]


@asynccontextmanager
async def session_of(scripted: Scripted) -> AsyncIterator[CodexSession]:
    async with scripted.engine() as engine, engine.open(scripted.brief()) as session:
        yield session
    assert running_processes(scripted.host) == []


async def test_every_start_names_approvals_and_sandbox(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted) as session:
        assert end_of(await read(session, "Hello")).answer == "Hello"
    (thread,), (turn,) = scripted.sent("thread/start"), scripted.sent("turn/start")
    assert thread["params"]["approvalPolicy"] == turn["params"]["approvalPolicy"] == "untrusted"
    assert turn["params"]["approvalsReviewer"] == "user"
    assert turn["params"]["sandboxPolicy"]["type"] == "workspaceWrite"
    assert thread["params"]["sandbox"] == "read-only"


async def test_a_crash_in_the_middle_of_a_line_fails_the_turn_and_the_next_one_works(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        failure = end_of(await read(session, "crash")).failure
        assert failure is not None
        assert failure.kind == "crash"
        assert "exit code 3" in failure.text
        assert end_of(await read(session, "Hello")).answer == "Hello"


async def test_a_server_that_obeys_no_stop_is_ended_and_the_next_turn_works(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        assert end_of(await read(session, "hang", when_said(session.interrupt))).outcome == "cancelled"
        assert end_of(await read(session, "Hello")).answer == "Hello"


def when_said(act: Callable[[], Awaitable[None]]) -> Reaction:
    return lambda event: act() if isinstance(event, TextDelta) else None


async def test_leaving_before_a_turn_has_begun_stops_it_and_spares_the_server(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path, stop_grace_s=5.0)
    async with scripted.engine() as engine:
        async with anyio.create_task_group() as tasks:

            async def begin() -> None:
                async with engine.open(scripted.brief()) as session:
                    await read(session, "slow start")

            tasks.start_soon(begin)
            with anyio.fail_after(60):
                while not scripted.log.exists() or not scripted.sent("turn/start"):
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
        assert scripted.sent("turn/interrupt")
        async with engine.open(scripted.brief()) as session:
            assert end_of(await read(session, "Hello")).answer == "Hello"
    assert len(scripted.sent("initialize")) == 1


async def test_a_stop_cleans_up_what_codex_leaves_running(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted) as session:
        assert end_of(await read(session, "stall", when_said(session.interrupt))).outcome == "cancelled"
        assert len(scripted.sent("thread/backgroundTerminals/clean")) == 1


async def test_an_end_that_comes_twice_counts_once(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        assert end_of(await read(session, "twice")).answer == "Once."
        assert end_of(await read(session, "Hello")).answer == "Hello"


async def test_what_comes_after_the_end_is_dropped(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        assert end_of(await read(session, "late")).answer == "Before."
        again = await read(session, "Hello")
    assert end_of(again).answer == "Hello"
    assert "After the end" not in str(again)


async def test_strange_items_and_methods_are_named_once_and_lose_nothing(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        events = await read(session, "strange")
    assert end_of(events).answer == "Awake."
    assert [word for word in ("item dream", "dream/deepened") if word in " ".join(notices_of(events))] == [
        "item dream",
        "dream/deepened",
    ]


async def test_a_line_of_100_mb_is_skipped(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        events = await read(session, "huge")
    assert end_of(events).answer == "Still here."
    assert len(notices_of(events)) == 1
    assert len(notices_of(events)[0]) < 1000


async def test_a_flood_of_deltas_arrives_whole(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path)) as session:
        assert end_of(await read(session, "flood")).answer == "word " * 5000


async def test_a_call_that_ran_unjudged_ends_the_turn(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted) as session:
        failure = end_of(await read(session, "leak")).failure
        assert failure is not None
        assert failure.kind == "permission"
        assert scripted.sent("turn/interrupt")
        assert end_of(await read(session, "Hello")).answer == "Hello"


async def test_a_request_without_a_turn_is_declined_at_once(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with session_of(scripted) as session:
        await read(session, "ask after the end")
        with anyio.fail_after(60):
            while not scripted.replies():
                await anyio.sleep(0.01)
    assert scripted.replies() == [{"id": 99, "result": {"decision": "decline"}}]


async def test_two_sessions_cannot_have_the_same_thread(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with scripted.engine() as engine, engine.open(scripted.brief()) as session:
        token = end_of(await read(session, "Hello")).resume
        again = msgspec.structs.replace(scripted.brief(), resume=token)
        refused: list[str] = []
        try:
            async with engine.open(again):
                pass
        except EngineError as error:
            refused.append(error.failure.text)
        assert refused == [IN_USE]
        assert end_of(await read(session, "Hello again")).answer == "Hello again"


async def test_an_old_codex_says_so(tmp_path: Path) -> None:
    """As 0.120 did, which knows app-server, and not its socket."""
    program = tmp_path / "old-codex"
    usage = "error: unexpected argument '--listen' found\n\nFor more information, try '--help'."
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo codex-cli 0.120.0 && exit\necho "{usage}" >&2\nexit 2\n'
    )
    program.chmod(0o755)
    with pytest.raises(EngineError) as caught:
        async with session_of(Scripted(tmp_path, command=str(program))):
            pass
    text = caught.value.failure.text
    assert "before it was ready (exit code 2): error: unexpected argument '--listen' found" in text
    assert "Version 0.120.0 was found, and Pilothouse was tested with 0.166.0" in text


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        ("mute", "hang", "did not answer its start within 0.5 s"),
        ("refuses", "bad_request", "Codex did not start: too old"),
        ("exits", "crash", "ended before it was ready (exit code 3): cannot open the database"),
    ],
)
async def test_a_server_that_does_not_begin_says_why(
    tmp_path: Path, fault: str, kind: str, words: str
) -> None:
    scripted = Scripted(tmp_path, fault, open_s=0.5 if fault == "mute" else 60.0)
    failures: list[EngineError] = []
    async with scripted.engine() as engine:
        try:
            async with engine.open(scripted.brief()):
                pass
        except EngineError as error:
            failures.append(error)
    (error,) = failures
    assert error.failure.kind == kind
    assert words in error.failure.text
    assert running_processes(scripted.host) == []


async def test_another_client_answers_an_ask_first_and_its_own_turn_wakes_the_session(tmp_path: Path) -> None:
    scripted = Scripted(tmp_path)
    async with scripted.engine() as engine:
        async with engine.open(scripted.brief()) as session, other_client(scripted) as client:

            async def answer(event: Asked) -> None:
                request = json.loads(await client.recv())
                while request.get("id") != 7:
                    request = json.loads(await client.recv())
                await client.send(json.dumps({"id": 7, "result": {"decision": "accept"}}))

            events = await read(
                session, "ask", lambda event: answer(event) if isinstance(event, Asked) else None
            )
            assert [event.state for event in events if isinstance(event, AskChanged)] == ["withdrawn"]
            assert end_of(events).answer == "Made."
            token = end_of(events).resume
        async with other_client(scripted) as client:
            wakes = engine.wakes()
            said = {"threadId": THREAD, "input": [{"type": "text", "text": "From a terminal"}]}
            await client.send(json.dumps({"id": 1, "method": "turn/start", "params": said}))
            with anyio.fail_after(60):
                wake = await anext(wakes)
        assert wake.session_id == "one"
        again = msgspec.structs.replace(scripted.brief(), resume=token, wake=wake.id)
        for answer_ in ("From a terminal", ""):  # the second time, it has been read
            async with engine.open(again) as session:
                events = await read(session, Prompt(wake.cause, wake=wake.id))
                assert end_of(events).answer == answer_
        async with engine.open(msgspec.structs.replace(again, wake="")) as session:
            assert end_of(await read(session, "Hello")).answer == "Hello"
    prompts = [line["params"]["input"][0]["text"] for line in scripted.sent("turn/start")]
    assert prompts == ["ask", "From a terminal", "Hello"]
    assert running_processes(scripted.host) == []


def other_client(scripted: Scripted) -> AbstractAsyncContextManager[ClientConnection]:
    path = Path(scripted.host.state_dir, "codex", "app-server.sock").resolve()
    return unix_connect(str(path), "ws://localhost/")


async def test_prose_before_the_protocol_is_skipped(tmp_path: Path) -> None:
    async with session_of(Scripted(tmp_path, "prose")) as session:
        events: list[EngineEvent] = await read(session, "Hello")
    assert end_of(events).answer == "Hello"
