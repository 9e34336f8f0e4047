"""The program: npm's script around it, one that is missing, one that is too old, and a sandbox that does not work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.engines.codex.binary import codex_binary

from pilothouse.core.call import Call
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.program import (
    OLDEST,
    TOO_OLD,
    explain_start,
    find_program,
    look_for,
    try_sandbox,
)
from pilothouse.engines.codex.spec import ENGINE, resume_lines
from pilothouse.testing.engine import check_spec

ID = "01a1e073-6613-7e33-879d-36dcc30b87ce"


def make_program(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "place", ["@openai/codex-linux-x64", "@openai/codex/node_modules/@openai/codex-linux-x64"]
)
def test_the_program_behind_npms_script_is_started(tmp_path: Path, place: str) -> None:
    script = make_program(tmp_path / "@openai" / "codex" / "bin" / "codex.js", "exit 1")
    native = make_program(tmp_path / place / "vendor" / "x86_64" / "bin" / "codex", "exit 0")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "codex").symlink_to(script)
    assert find_program("codex", str(tmp_path / "bin")) == native


def test_a_script_without_its_program_is_started_itself(tmp_path: Path) -> None:
    script = make_program(tmp_path / "codex" / "bin" / "codex.js", "exit 1")
    assert find_program(script, None) == script


def test_a_missing_program_says_how_to_install_it(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="npm install -g @openai/codex"):
        find_program("codex", str(tmp_path))
    status = look_for(CodexConfig(), str(tmp_path))
    assert (status.available, status.fix) == (False, "npm install -g @openai/codex")


def test_a_version_is_found_and_a_program_without_one_is_no_codex(tmp_path: Path) -> None:
    good = make_program(tmp_path / "good", "echo codex-cli 0.166.0")
    assert look_for(CodexConfig(command=good), None).version == "0.166.0"
    assert (
        "prints no version"
        in look_for(CodexConfig(command=make_program(tmp_path / "bad", "true")), None).problem
    )


def test_a_version_without_the_socket_is_too_old(tmp_path: Path) -> None:
    status = look_for(CodexConfig(command=make_program(tmp_path / "codex", "echo codex-cli 0.90.0")), None)
    assert (status.available, status.version, status.fix) == (False, "0.90.0", "npm install -g @openai/codex")
    assert f"Codex 0.90.0 is too old: Pilothouse needs {OLDEST} or newer" in status.problem
    assert look_for(CodexConfig(command=make_program(tmp_path / "new", f"echo {OLDEST}")), None).available


def test_a_program_without_an_app_server_is_too_old() -> None:
    told = Failure("crash", "ended", detail="exit code 1\nError: stdin is not a terminal")
    assert explain_start(told).text == TOO_OLD.format(install="npm install -g @openai/codex")
    other = Failure("crash", "ended", detail="exit code 1")
    assert explain_start(other) == other


@pytest.mark.anyio
async def test_a_sandbox_that_does_not_work_says_why(tmp_path: Path) -> None:
    broken = make_program(tmp_path / "broken", "echo 'bwrap: no user namespaces' >&2; exit 1")
    assert await try_sandbox(broken, dict(os.environ)) == "bwrap: no user namespaces"
    assert await try_sandbox(make_program(tmp_path / "works", "exit 0"), dict(os.environ)) == ""


@pytest.mark.anyio
@pytest.mark.slow
async def test_the_real_sandbox_is_tried(tmp_path: Path) -> None:
    assert await try_sandbox(str(codex_binary()), {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}) == ""


def test_the_spec_is_one() -> None:
    check_spec(ENGINE)
    payload = {"tool": "exec_command", "input": {"command": "ls"}, "cwd": "/work"}
    assert ENGINE.call_of is not None
    assert ENGINE.call_of(payload) == Call("command", "exec_command", "/work", "ls")


@pytest.mark.parametrize(
    "line", [f"codex resume {ID}", f"`codex resume {ID}`", f"$ Codex  resume {ID.upper()}"]
)
def test_a_resume_line_is_understood(line: str) -> None:
    lines = resume_lines(CodexConfig())
    assert lines.parse(f"go on\n{line}") == (ResumeToken(EngineId("codex"), ID), "go on")
    assert lines.parse(f"what does codex resume {ID} do?")[0] is None
    token = ResumeToken(EngineId("codex"), ID, "/srv/my app")
    assert lines.command(token) == f"cd '/srv/my app' && codex resume {ID}"
    assert lines.parse(lines.command(token))[0] == token
    assert (lines.read(ID), lines.read("latest")) == (ResumeToken(EngineId("codex"), ID), None)
