"""Claude Code is asked itself whether it is logged in, as a turn would find it, and whether its model answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.engines.claude.binary import claude_binary

from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.login import EXPIRED, LOG_IN, NOT_LOGGED_IN, PROMPT, check_login, try_model


def program(folder: Path, printed: str, code: int = 0) -> ClaudeConfig:
    """A `claude` that prints this, and writes down its words and its key."""
    path = folder / "claude"
    path.write_text(
        f'#!/bin/sh\nprintf \'%s\\n\' "$@" >{folder}/words\necho "${{ANTHROPIC_API_KEY-none}}" >{folder}/key\n'
        f"cat <<'END'\n{printed}\nEND\nexit {code}\n"
    )
    path.chmod(0o755)
    return ClaudeConfig(command=str(path))


def test_a_login_is_believed_and_named(tmp_path: Path) -> None:
    status = check_login(program(tmp_path, '{"loggedIn": true, "authMethod": "claude.ai", "email": "a@b.c"}'))
    assert (status.available, status.version) == (True, "logged in (claude.ai)")
    assert (tmp_path / "words").read_text().split() == ["auth", "status"]


def test_no_login_comes_with_the_command_that_makes_one(tmp_path: Path) -> None:
    status = check_login(program(tmp_path, '{"loggedIn": false, "authMethod": "none"}', 1))
    assert (status.available, status.problem, status.fix) == (False, NOT_LOGGED_IN, LOG_IN)


@pytest.mark.parametrize("moment", ['"2020-01-01T00:00:00Z"', "1577836800", "1577836800000"])
def test_an_expired_login_is_none(tmp_path: Path, moment: str) -> None:
    said = f'{{"loggedIn": true, "authMethod": "claude.ai", "loginExpiresAt": {moment}}}'
    assert check_login(program(tmp_path, said)).problem == EXPIRED
    assert check_login(program(tmp_path, said.replace("157", "957").replace("2020", "2999"))).available


def test_an_older_version_that_cannot_say_is_not_called_logged_out(tmp_path: Path) -> None:
    assert check_login(program(tmp_path, "error: unknown command 'auth'", 1)).available


def test_a_key_counts_only_if_turns_get_it(tmp_path: Path) -> None:
    config, environ = program(tmp_path, '{"loggedIn": true}'), {"ANTHROPIC_API_KEY": "sk-ant-x"}
    check_login(config, environ)
    assert (tmp_path / "key").read_text() == "none\n"
    check_login(ClaudeConfig(command=config.command, environment=["ANTHROPIC_API_KEY"]), environ)
    assert (tmp_path / "key").read_text() == "sk-ant-x\n"


def test_a_model_that_answers_is_fine_and_gets_no_tools(tmp_path: Path) -> None:
    assert try_model(program(tmp_path, '{"is_error": false, "result": "OK"}')).available
    words = (tmp_path / "words").read_text().split("\n")
    assert words[words.index("--tools") + 1] == "" and PROMPT in words


def test_a_model_that_does_not_is_explained(tmp_path: Path) -> None:
    said = "API Error: 401 OAuth token has expired. Please obtain a new token."
    status = try_model(program(tmp_path, json.dumps({"is_error": True, "result": said}), 1))
    assert (status.available, status.fix) == (False, LOG_IN) and "expired" in status.problem
    assert "no such file" in try_model(program(tmp_path, "no such file", 1)).problem


@pytest.mark.slow
def test_the_real_program_tells(tmp_path: Path) -> None:
    config = ClaudeConfig(command=str(claude_binary()), environment=["ANTHROPIC_API_KEY"])
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    assert check_login(config, environ).problem == NOT_LOGGED_IN
    assert check_login(config, {**environ, "ANTHROPIC_API_KEY": "sk-ant-x"}).version == "logged in (api_key)"
