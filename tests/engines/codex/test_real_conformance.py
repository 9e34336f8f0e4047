"""The Codex engine keeps what every engine must: the real app-server on a scripted API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.codex.api import Reply, Request, ScriptedApi, refuse, say, shell
from tests.engines.codex.rig import Rig

from pilothouse.core.engine import Brief, Engine
from pilothouse.testing.engine import EngineConformance

pytestmark = pytest.mark.slow


def model(request: Request) -> Reply:
    """What the scripted model does about each prompt of the suite."""
    prompt, done = request.prompt, bool(request.outputs)
    if "use a tool" in prompt or "ask me" in prompt:
        return say("it ran, or not") if done else shell("touch made.txt")
    if "not on a Friday" in prompt:
        return say("another day, then")
    if "take your time" in prompt:
        return Reply([{"say": "wait "}], ending="stall")
    if "fail" in prompt:
        return refuse(400, "No.")
    return say(prompt)


class CodexRig:
    tool_prompt = ""
    ask_prompt = "ask me"
    long_prompt = "take your time"
    failing_prompt = "fail"
    bad_tokens = ("", "nonsense", "--help", "11111111-2222-4333-8444-555555555555")

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    def build(self) -> Engine:
        return self._rig.engine()

    def brief(self, name: str) -> Brief:
        return self._rig.brief(name)

    def prompt_saying(self, word: str) -> str:
        return f"say {word}"

    def leftovers(self) -> list[str]:
        return self._rig.leftovers()


class TestAsked(EngineConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[CodexRig]:
        with ScriptedApi(model).serving() as api:
            yield CodexRig(Rig(tmp_path, api))
