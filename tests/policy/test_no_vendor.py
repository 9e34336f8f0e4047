"""Calls are judged, shown and stored without knowing whose they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "pilothouse"
NAMES = re.compile(
    r"\b(Bash|MultiEdit|Notebook(?:Edit|Read)|Web(?:Fetch|Search)|Todo(?:Read|Write)|ExitPlanMode|AskUserQuestion"
    r"|file_path|filePath|notebook_path|old_string|new_string|new_source|mcp__)\b|mcp__"
    r"|[\"'](Read|Edit|Write|Glob|Grep|LS|Skill|Task)[\"']|\btool (Read|Edit|Write|Glob|Grep)\b"
)


@pytest.mark.parametrize("room", ["core", "policy", "runtime"])
def test_no_vendor_s_names_for_tools_and_inputs_are_known_here(room: str) -> None:
    files = sorted((ROOT / room).rglob("*.py"))
    found = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if NAMES.search(line)
    ]
    assert files and not found


def test_the_names_would_be_found() -> None:
    here = (ROOT / "engines" / "claude" / "calls.py").read_text("utf-8")
    assert len(NAMES.findall(here)) > 10
