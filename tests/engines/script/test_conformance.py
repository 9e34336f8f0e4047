"""The script engine keeps what every engine must, with one process for all sessions and with one for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.script.rig import Rig

from pilothouse.core.engine import Brief, Engine
from pilothouse.testing.engine import EngineConformance

SCRIPT = """
[[turn]]
match = "use a tool"
steps = [{ think = "which?" }, { tool = "read", title = "a.txt", output = "a" }, { say = "done" }]

[[turn]]
match = "ask me"
steps = [{ ask = "Run it?", payload = { command = "make" }, on_allow = [{ say = "it ran" }] }]

[[turn]]
match = "take your time"
steps = [{ stream = "wait " }, { tool = "command", title = "sleep", for_s = 600 }]

[[turn]]
match = "fail"
steps = [{ fail = "overloaded", text = "Too much." }]

[[turn]]
steps = [{ stream = "{prompt}", chunk = 3, every_s = 0 }]
"""


class ScriptRig:
    tool_prompt = "use a tool"
    ask_prompt = "ask me"
    long_prompt = "take your time"
    failing_prompt = "fail"
    bad_tokens = ("", "nonsense", "12.3", "no-uuid.0", "11111111-2222-3333-4444-555555555555.x")

    def __init__(self, folder: Path, process: str) -> None:
        self._rig = Rig(folder, process=process)
        self._script = folder / "conformance.toml"
        self._script.write_text(SCRIPT)

    def build(self) -> Engine:
        return self._rig.engine(script=str(self._script))

    def brief(self, name: str) -> Brief:
        return self._rig.brief(name)

    def prompt_saying(self, word: str) -> str:
        return f"say {word}"

    def leftovers(self) -> list[str]:
        return self._rig.leftovers()


class TestSharedProcess(EngineConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> ScriptRig:
        return ScriptRig(tmp_path, "shared")


class TestProcessPerSession(EngineConformance):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> ScriptRig:
        return ScriptRig(tmp_path, "per-session")
