"""An ACP agent keeps what every engine must: the scripted agent, with steering."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.acp.rig import Scripted

from pilothouse.core.engine import Brief, Engine
from pilothouse.testing.engine import EngineConformance


class AcpRig:
    tool_prompt = ""
    ask_prompt = "run make"
    long_prompt = "wait"
    failing_prompt = "fail -32603"
    bad_tokens = ("", "nonsense", "--help", "11111111-2222-4333-8444-555555555555")

    def __init__(self, folder: Path, fault: str) -> None:
        self._scripted = Scripted(folder, fault)

    def build(self) -> Engine:
        return self._scripted.engine()

    def brief(self, name: str) -> Brief:
        return self._scripted.brief(name)

    def prompt_saying(self, word: str) -> str:
        return word

    def leftovers(self) -> list[str]:
        return self._scripted.leftovers()


class TestSteered(EngineConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> AcpRig:
        return AcpRig(tmp_path, "steers")
