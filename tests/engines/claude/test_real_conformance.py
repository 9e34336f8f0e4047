"""The Claude engine keeps what every engine must: the real CLI, pooled and with a process for each turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.claude.api import Reply, Request, ScriptedApi, bash, call, refuse, say
from tests.engines.claude.rig import Rig

from pilothouse.core.engine import Brief, Engine
from pilothouse.testing.engine import EngineConformance

pytestmark = pytest.mark.slow


def model(request: Request) -> Reply:
    """What the scripted model does about each prompt of the suite."""
    prompt, done = request.prompt, bool(request.tool_results)
    if "use a tool" in prompt:
        return say("done") if done else call("Read", file_path="a.txt")
    if "ask me" in prompt:
        return say("it ran, or not") if done else bash("touch made.txt")
    if "take your time" in prompt:
        return Reply([{"text": "wait "}], ending="stall")
    if "fail" in prompt:
        return refuse(400, "invalid_request_error", "No.")
    return say(prompt)


class ClaudeRig:
    tool_prompt = "use a tool"
    ask_prompt = "ask me"
    long_prompt = "take your time"
    failing_prompt = "fail"
    bad_tokens = ("", "nonsense", "--help", "11111111-2222-4333-8444-555555555555")

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        (rig.workspace / "a.txt").write_text("a\n")

    def build(self) -> Engine:
        return self._rig.engine()

    def brief(self, name: str) -> Brief:
        return self._rig.brief(name)

    def prompt_saying(self, word: str) -> str:
        return f"say {word}"

    def leftovers(self) -> list[str]:
        return self._rig.leftovers()


class TestPooled(EngineConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[ClaudeRig]:
        with ScriptedApi(model).serving() as api:
            yield ClaudeRig(Rig(tmp_path, api))
