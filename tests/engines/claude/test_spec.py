"""How the engine presents itself: the program, its version, and the exact line that installs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.claude.binary import VERSION, claude_binary

from pilothouse.engines.claude import ENGINE
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.spec import INSTALL, examine, look_for, probe


def program(folder: Path, lines: str) -> ClaudeConfig:
    path = folder / "claude"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return ClaudeConfig(command=str(path))


def test_its_names() -> None:
    assert (ENGINE.id, ENGINE.aliases) == ("claude", ("claude-code",))


def test_without_the_program_the_line_that_installs_it_is_named(tmp_path: Path) -> None:
    status = look_for(ClaudeConfig(), str(tmp_path))
    assert (status.available, status.fix) == (False, INSTALL)
    assert "engines.claude.command" in look_for(ClaudeConfig(command="clod"), str(tmp_path)).fix


def test_the_version_is_told(tmp_path: Path) -> None:
    assert probe(program(tmp_path, "echo '2.1.325 (Claude Code)'")).version == "2.1.325"


@pytest.mark.parametrize("lines", ["exit 3", "echo hello", "kill -9 $$"])
def test_a_program_that_is_not_claude_is_not_available(tmp_path: Path, lines: str) -> None:
    status = probe(program(tmp_path, lines))
    assert not status.available
    assert status.problem


def test_doctor_is_told_why_turns_would_not_start(tmp_path: Path) -> None:
    assert "full access only" in examine(program(tmp_path, "echo 'error: unknown option' >&2; exit 1"))


@pytest.mark.slow
def test_the_real_program_is_in_order() -> None:
    config = ClaudeConfig(command=str(claude_binary()))
    assert probe(config).version == VERSION
    assert examine(config) == ""
