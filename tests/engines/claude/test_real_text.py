"""Text mode with the real CLI: a prompt in the command line, for owners alone, and its tools read from its log."""

from __future__ import annotations

import base64
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.claude.api import Reply, bash, call, open_api, refuse, say, use
from tests.engines.claude.image_server import PIXEL
from tests.engines.claude.rig import Rig, command_of, end_of, notices_of, read_prompt

from pilothouse.core.engine import Steerable
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent, ResumeToken, SessionStarted, ToolFinished, ToolStarted
from pilothouse.core.ids import EngineId
from pilothouse.core.turn import Prompt

pytestmark = pytest.mark.slow

FULL: dict[str, Any] = {"approval_mode": "full-access"}


def text_rig(folder: Path, api: Any, **config: Any) -> Rig:
    return Rig(folder, api, output="text", **config)


def owner(text: str = "Hello", *attachments: Any) -> Prompt:
    return Prompt(text, attachments, by="Ann", by_owner=True)


async def play_text(rig: Rig, prompt: Prompt, **brief: Any) -> list[EngineEvent]:
    async with rig.engine() as engine, engine.open(rig.brief(**brief)) as session:
        return await read_prompt(session, prompt)


def tools_of(events: list[EngineEvent]) -> list[str]:
    return [event.call.title for event in events if isinstance(event, ToolStarted)]


def resume_of(events: list[EngineEvent]) -> ResumeToken:
    token = end_of(events).resume
    assert token is not None
    return token


async def test_an_owner_is_answered_and_the_session_goes_on(tmp_path: Path) -> None:
    with open_api(say("I am Ada."), say("Ada, as I said.")) as api:
        rig = text_rig(tmp_path, api)
        first = await play_text(rig, owner("Who are you? -- --help"))
        again = await play_text(rig, owner("Who?"), resume=resume_of(first))
    assert (end_of(first).outcome, end_of(first).answer) == ("completed", "I am Ada.")
    assert resume_of(again) == resume_of(first)
    assert resume_of(first).cwd == str(rig.workspace)
    assert end_of(again).answer == "Ada, as I said."
    assert "-- --help" in api.main[0].prompt
    assert "I am Ada." in api.main[-1].text
    assert rig.leftovers() == []


async def test_nobody_but_an_owner_is_taken_and_nothing_is_started(tmp_path: Path) -> None:
    with open_api(say("never")) as api:
        rig = text_rig(tmp_path, api)
        events = await play_text(rig, Prompt("@/etc/passwd"))
    failure = end_of(events).failure
    assert failure is not None
    assert failure.kind == "permission"
    assert "owner" in failure.text
    assert not api.requests
    assert "process.started" not in [name for name, _ in rig.logged]


async def test_with_scanning_tools_are_seen_while_they_run_and_those_of_before_are_not(
    tmp_path: Path,
) -> None:
    script = Reply([use("Bash", command="echo hi", description="d"), use("Read", file_path="x.txt")])
    with open_api(script, say("done"), call("Read", file_path="y.txt"), say("again")) as api:
        rig = text_rig(tmp_path, api, session_scanning=True)
        (rig.workspace / "x.txt").write_text("x")
        first = await play_text(rig, owner(), **FULL)
        again = await play_text(rig, owner(), resume=resume_of(first), **FULL)
    assert tools_of(first) == ["echo hi", "tool: Read x.txt"]
    assert sum(isinstance(event, ToolFinished) for event in first) == 2
    assert isinstance(first[0], SessionStarted)
    assert tools_of(again) == ["tool: Read y.txt"]
    assert end_of(again).answer == "again"


async def test_a_tool_is_told_before_it_has_ended(tmp_path: Path) -> None:
    with open_api(bash("echo; sh -c 'sleep 600; true'"), say("never")) as api:
        rig = text_rig(tmp_path, api, session_scanning=True)
        async with rig.engine() as engine, engine.open(rig.brief(**FULL)) as session:

            def stop(event: EngineEvent) -> Awaitable[None] | None:
                return session.interrupt() if isinstance(event, ToolStarted) else None

            events = await read_prompt(session, owner(), stop)
            with anyio.fail_after(60):
                while rig.pids():
                    await anyio.sleep(0.05)
    assert end_of(events).outcome == "cancelled"
    assert resume_of(events)


async def test_without_scanning_there_is_only_the_answer(tmp_path: Path) -> None:
    with open_api(call("Read", file_path="x.txt"), say("done")) as api:
        events = await play_text(text_rig(tmp_path, api), owner())
    assert tools_of(events) == []
    assert end_of(events).answer == "done"


async def test_outside_of_full_access_claude_can_only_read_and_says_so_once(tmp_path: Path) -> None:
    with open_api(say("one"), say("two")) as api:
        rig = text_rig(tmp_path, api)
        first = await play_text(rig, owner())
        again = await play_text(rig, owner(), resume=resume_of(first))
    tools = {tool["name"] for request in api.main for tool in request.body["tools"]}
    assert tools.isdisjoint({"Bash", "Write", "Edit", "WebFetch", "Task"})
    assert "Read" in tools
    assert any("can only read" in text for text in notices_of(first))
    assert not notices_of(again)


async def test_in_full_access_a_command_runs_without_anybody(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("made")) as api:
        rig = text_rig(tmp_path, api)
        events = await play_text(rig, owner(), **FULL)
    assert end_of(events).answer == "made"
    assert (rig.workspace / "made.txt").exists()


async def test_an_image_switches_the_turn_to_stream_json_in_the_same_session(tmp_path: Path) -> None:
    with open_api(say("a pixel"), say("I saw a pixel")) as api:
        rig = text_rig(tmp_path, api)
        image = await rig.blobs.put(base64.b64decode(PIXEL), "p.png", "image/png")
        async with rig.engine() as engine:
            async with engine.open(rig.brief()) as session:
                first = await read_prompt(session, owner("look", image))
                assert isinstance(session, Steerable)
                second = await read_prompt(session, owner("what was it?"))
            assert rig.pids() == []
    assert '"type": "image"' in api.main[0].text
    assert resume_of(second) == resume_of(first)
    assert (end_of(second).answer, "a pixel" in api.main[-1].text) == ("I saw a pixel", True)


async def test_what_the_api_refuses_is_why_the_turn_failed(tmp_path: Path) -> None:
    with open_api(refuse(401, "authentication_error")) as api:
        events = await play_text(text_rig(tmp_path, api), owner())
    failure = end_of(events).failure
    assert failure is not None
    assert (failure.kind, end_of(events).answer) == ("auth", "")


async def test_a_session_that_is_gone_is_told_as_such(tmp_path: Path) -> None:
    token = ResumeToken(EngineId("claude"), "11111111-2222-4333-8444-555555555555")
    with open_api(say("never")) as api:
        events = await play_text(text_rig(tmp_path, api), owner(), resume=token)
    failure = end_of(events).failure
    assert failure is not None
    assert failure.kind == "stale_session"


async def test_one_session_is_leased_once(tmp_path: Path) -> None:
    with open_api(say("one")) as api:
        rig = text_rig(tmp_path, api)
        token = resume_of(await play_text(rig, owner()))
        async with rig.engine() as engine, engine.open(rig.brief(resume=token)):
            with pytest.raises(EngineError, match="in use"):
                async with engine.open(rig.brief(resume=token)):
                    pass


async def test_a_prompt_that_no_command_line_holds_is_refused_with_a_word(tmp_path: Path) -> None:
    with open_api(say("never")) as api:
        events = await play_text(text_rig(tmp_path, api), owner("x" * 200_000))
    failure = end_of(events).failure
    assert failure is not None
    assert "as a file" in failure.text


async def test_leaving_in_the_middle_leaves_no_process(tmp_path: Path) -> None:
    with open_api(bash("echo; sh -c 'sleep 600; true'"), say("never")) as api:
        rig = text_rig(tmp_path, api, session_scanning=True)
        async with rig.engine() as engine:
            async with engine.open(rig.brief(**FULL)) as session:
                with anyio.fail_after(60):
                    async for event in session.run(owner()):
                        if isinstance(event, ToolStarted):
                            break
            assert [command_of(pid) for pid in rig.pids()] == []
