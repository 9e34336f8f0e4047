"""Ask Claude Code whether it is logged in, and on request whether its model answers. For `pilothouse doctor`.

The program itself is asked, in the environment that a turn has: no credential is read here. `claude auth status` prints
JSON (measured with 2.1.325); a version without that command counts as logged in, and a turn will tell.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct, field

from pilothouse.core.engine import Brief, EngineStatus, ProcessStart
from pilothouse.core.ids import SessionId
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.failures import EXPIRED, NOT_LOGGED_IN, explain_printed
from pilothouse.engines.claude.launch import child_environment
from pilothouse.processes.launcher import read_output

STATUS_S = 15.0
ANSWER_S = 90.0
LOG_IN = "claude auth login"
PROMPT = "Reply with the word OK."
_ONE_ANSWER = ("-p", "--output-format", "json", "--max-turns", "1", "--tools", "", "--strict-mcp-config")
_NOTHING_KEPT = ("--no-session-persistence", "--setting-sources", "")


class _AuthStatus(Struct, frozen=True):
    logged_in: bool = field(name="loggedIn")
    method: str = field(default="", name="authMethod")
    expires_at: float | str | None = field(default=None, name="loginExpiresAt")


class _Answer(Struct, frozen=True):
    is_error: bool
    result: str = ""


def check_login(config: ClaudeConfig, environ: Mapping[str, str] | None = None) -> EngineStatus:
    """Return whether the program says that it is logged in; the `version` names how."""
    done = _run(config, ("auth", "status"), STATUS_S, environ)
    try:
        status = msgspec.json.decode(done, type=_AuthStatus)
    except msgspec.DecodeError:
        return EngineStatus(True, version="this version of Claude Code does not say whether it is logged in")
    if not status.logged_in:
        return EngineStatus(False, problem=NOT_LOGGED_IN, fix=LOG_IN)
    if _is_past(status.expires_at):
        return EngineStatus(False, problem=EXPIRED, fix=LOG_IN)
    return EngineStatus(True, version=f"logged in ({status.method})" if status.method else "logged in")


def try_model(config: ClaudeConfig, environ: Mapping[str, str] | None = None) -> EngineStatus:
    """Send the model one short message, without tools, settings or a kept session."""
    model = ("--model", config.model) if config.model else ()
    done = _run(config, (*_ONE_ANSWER, *_NOTHING_KEPT, *model, "--", PROMPT), ANSWER_S, environ)
    try:
        answer = msgspec.json.decode(done, type=_Answer)
    except msgspec.DecodeError:
        said = done.decode("utf-8", "replace").strip()[-300:]
        return EngineStatus(False, problem=said or f"The model did not answer within {ANSWER_S:.0f} s.")
    if not answer.is_error:
        return EngineStatus(True, version="it answered a test message")
    failure = explain_printed(answer.result)
    is_login = failure.text in (NOT_LOGGED_IN, EXPIRED)
    fix = LOG_IN if is_login else failure.fix.replace("{machine}", "this machine")
    return EngineStatus(False, problem=failure.text, fix=fix)


def _run(
    config: ClaudeConfig, words: Sequence[str], within_s: float, environ: Mapping[str, str] | None
) -> bytes:
    """Return what the program prints; nothing if it does not run or does not end in time."""
    brief = Brief(SessionId("doctor"), "")
    environment = child_environment(config, os.environ if environ is None else environ, brief)
    with tempfile.TemporaryDirectory(prefix="pilothouse-doctor-") as folder:
        return read_output(
            ProcessStart("claude doctor", (config.command, *words), folder, environment), within_s
        )


def _is_past(moment: float | str | None) -> bool:
    """Read an ISO time, or epoch seconds or milliseconds. What cannot be read is not past."""
    if moment is None:
        return False
    try:
        at = datetime.fromisoformat(moment).timestamp() if isinstance(moment, str) else float(moment)
    except ValueError:
        return False
    return (at / 1000 if at > 1e11 else at) < time.time()
