"""The native engine keeps what every engine must, in each dialect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engines.native.model import Call, Reply, Request, open_model
from tests.engines.native.rig import Rig

from pilothouse.core.engine import Brief, Engine
from pilothouse.testing.engine import EngineConformance


def script(request: Request) -> Reply:
    prompt, results = request.prompt, request.results
    if "use a tool" in prompt and not results:
        return Reply(calls=[Call("glob", {"pattern": "*"})])
    if "ask me" in prompt and not results:
        return Reply(calls=[Call("bash", {"command": "touch made"})])
    if "take your time" in prompt:
        return Reply("Let me think.", stalls=True)
    if "fail" in prompt:
        return Reply("No such model.", status=404, code="not_found_error")
    return Reply(f"You said: {prompt}")


class NativeRig:
    tool_prompt = "use a tool"
    ask_prompt = "ask me"
    long_prompt = "take your time"
    failing_prompt = "fail"
    bad_tokens = ("", "nonsense", "../../etc/passwd", "11111111-2222-4333-8444-555555555555")

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


class TestNative(EngineConformance):
    @pytest.fixture(params=["anthropic", "openai", "compatible"])
    def rig(self, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NativeRig]:
        with open_model(script) as model:
            yield NativeRig(Rig(tmp_path, model, request.param))
