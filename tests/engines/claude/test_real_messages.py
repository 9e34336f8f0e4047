"""Claude's own messages between sessions: with the real CLI, none of them reaches a session of ours."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.claude.api import ScriptedApi, call, open_api, say
from tests.engines.claude.binary import claude_binary
from tests.engines.claude.rig import Rig, end_of, read, read_prompt

from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.config import REFUSED_TOOLS

pytestmark = pytest.mark.slow

SECRET = "LEAK-7731"
NAME = "beta"
SENT_WITHIN_S = 100


def send_from_another_session(rig: Rig) -> list[dict[str, Any]]:
    """A plain Claude Code of the same home, as its owner would run it in a terminal, sends to the session `NAME`.

    Its permission mode is the receiver's: Claude holds messages between sessions of different modes. Returns what its
    tools said.
    """
    sends = call("SendMessage", to=NAME, message=SECRET, summary="x")
    with open_api(call("ListAgents"), sends, say("sent")) as api:
        flags = ["--output-format", "stream-json", "--verbose"]
        done = subprocess.run(
            [claude_binary(), "-p", *flags, "--name", "alpha", "go"],
            cwd=rig.home,
            env={**rig.environment(), "ANTHROPIC_BASE_URL": api.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SENT_WITHIN_S,
            check=True,
        )
        assert done.stdout
        return [result for request in api.main for result in request.tool_results]


@contextmanager
def plain_session(rig: Rig) -> Iterator[subprocess.Popen[str]]:
    """A session of the same home that refuses nothing; its first turn is over."""
    flags = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--name", NAME]
    process = subprocess.Popen(
        [claude_binary(), "-p", *flags],
        cwd=rig.workspace,
        env=rig.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": "hi"}}) + "\n")
        process.stdin.flush()
        next(line for line in process.stdout if json.loads(line)["type"] == "result")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def saw(api: ScriptedApi) -> bool:
    return any(SECRET in request.text for request in api.requests)


def test_a_session_that_refuses_nothing_takes_a_turn_for_another_one(tmp_path: Path) -> None:
    """Shows that the message of these tests arrives where nothing stops it."""
    with open_api(say("ready"), say("woken")) as api:
        rig = Rig(tmp_path, api)
        with plain_session(rig) as process:
            results = send_from_another_session(rig)
            assert process.stdout is not None
            next(line for line in process.stdout if json.loads(line)["type"] == "result")
    assert len(results) == 2
    assert saw(api)


async def test_a_message_of_another_session_starts_no_turn_in_ours(tmp_path: Path) -> None:
    """Also where an owner wants all of Claude's tools."""
    extra = [
        "--name",
        NAME,
        "--disallowedTools",
        "NotebookEdit",
        "--settings",
        '{"spinnerTipsEnabled": false}',
    ]
    with open_api(say("ready"), say("still here")) as api:
        rig = Rig(tmp_path, api, extra_args=extra, tools=["default"])
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            first = await read(session)
            results = await anyio.to_thread.run_sync(send_from_another_session, rig)
            again = await read(session, "And now?")
            assert len(rig.pids()) == 1, "the session would be new"
    assert len(results) == 2
    assert (end_of(first).answer, end_of(again).answer) == ("ready", "still here")
    assert len(api.main) == 2
    assert not saw(api)
    offered = {tool["name"] for request in api.main for tool in request.body["tools"]}
    assert offered.isdisjoint({*REFUSED_TOOLS, "NotebookEdit"})


async def test_text_mode_offers_no_messages_and_no_schedules(tmp_path: Path) -> None:
    with open_api(say("ready")) as api:
        rig = Rig(tmp_path, api, output="text", tools=["default"])
        async with rig.engine() as engine, engine.open(rig.brief(approval_mode="full-access")) as session:
            events = await read_prompt(session, Prompt("Hello", by="Ann", by_owner=True))
    assert end_of(events).answer == "ready"
    offered = {tool["name"] for request in api.main for tool in request.body["tools"]}
    assert "Bash" in offered
    assert offered.isdisjoint(REFUSED_TOOLS)
