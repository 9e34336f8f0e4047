"""No turn starts with a program that was not the one which was tried, however often it is replaced."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from pilothouse.core.engine import EngineHost
from pilothouse.engines.claude.gate_proof import NO_HOOK, REPLACED, ProvenGate
from pilothouse.processes import Marker
from pilothouse.testing.hosts import MemoryBlobs

pytestmark = pytest.mark.slow

START = """
import json, os, sys

if "--version" in sys.argv:
    sys.exit(print("1.0.0 (Claude Code)"))
"""
GATED = """
hook = {"subtype": "hook_callback", "callback_id": "gate", "input": {}, "tool_use_id": "t"}
print(json.dumps({"type": "control_request", "request_id": "1", "request": hook}), flush=True)
while "hookSpecificOutput" not in sys.stdin.readline():
    pass
asked = {"subtype": "can_use_tool", "tool_name": "Bash", "input": {}}
print(json.dumps({"type": "control_request", "request_id": "2", "request": asked}), flush=True)
"""
OPEN = 'print(json.dumps({"type": "result", "is_error": False}))\n'


def put(path: Path, lines: str) -> Path:
    path.write_text(f"#!{sys.executable}\n{START}{lines}")
    path.chmod(0o755)
    return path


def gate_of(command: Path, state: Path, logged: list[str]) -> ProvenGate:
    def log(event: str, **fields: Any) -> None:
        logged.append(event)

    plain = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    return ProvenGate(str(command), EngineHost(MemoryBlobs(), plain, str(state), "n", log), Marker("M", "n"))


@pytest.mark.parametrize(("other", "problem"), [(OPEN, NO_HOOK), (GATED, "")])
async def test_one_that_is_replaced_while_it_is_tried_proves_nothing_of_the_other(
    tmp_path: Path, other: str, problem: str
) -> None:
    command, logged = tmp_path / "claude", list[str]()
    fresh = put(tmp_path / "fresh", other)
    put(command, f"os.replace({str(fresh)!r}, {str(command)!r})\n{GATED}")
    gate = gate_of(command, tmp_path, logged)
    assert await gate.prove() == problem
    assert await gate_of(command, tmp_path, logged).prove() == problem, "nor is that remembered"
    assert logged == (["gate.unproven"] * 2 if problem else [])


async def test_one_that_is_never_the_same_is_not_proven(tmp_path: Path) -> None:
    command = tmp_path / "claude"
    put(command, f"open({str(command)!r}, 'a').write('#')\n{GATED}")
    assert await gate_of(command, tmp_path, []).prove() == REPLACED
