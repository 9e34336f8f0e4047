"""The entry point of the Codex engine. Cheap to import: the rest is loaded when it is used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pilothouse.core.call import Call
from pilothouse.core.engine import (
    Engine,
    EngineHost,
    EngineSpec,
    EngineStatus,
    LineTranslator,
    ResumeLines,
    SessionLog,
    TrustedFile,
)
from pilothouse.core.ids import EngineId
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.threads import is_thread_id
from pilothouse.engines.resume_lines import make_resume_lines
from pilothouse.engines.workspace_files import BOOTSTRAP, WORKSPACE_FILES

_ID = EngineId("codex")

NO_SANDBOX = (
    "Codex's sandbox does not work here ({problem}), so every command of the agent would fail. Allow user namespaces, or set "
    'sandbox = "danger-full-access" under [engines.codex].'
)
NO_LOGIN = "Codex has no login in {home}, and no variable with a key is named under [engines.codex]."
LOG_IN = "codex login"


def build(config: CodexConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.codex.engine import CodexEngine

    return CodexEngine(config, host)


def probe(config: CodexConfig) -> EngineStatus:
    """Find the program and its version. Only a turn can tell whether its login is valid."""
    from pilothouse.engines.codex.program import look_for

    return look_for(config, os.environ.get("PATH"))


def login(config: CodexConfig) -> EngineStatus:
    """Look for a login: the user's own, or a provider or variable with a key. No credential is read."""
    from pilothouse.engines.codex.home import user_home, user_settings

    home = user_home(config.home, os.environ)
    if (home / "auth.json").exists():
        return EngineStatus(True, version="logged in")
    if "model_provider" in user_settings(home):
        return EngineStatus(True, version="own model provider")
    if config.environment:
        return EngineStatus(True, version="key from the environment")
    return EngineStatus(False, problem=NO_LOGIN.format(home=home), fix=LOG_IN)


def examine(config: CodexConfig) -> str:
    """Try the sandbox."""
    import anyio

    from pilothouse.engines.codex.program import find_program, try_sandbox

    if config.sandbox == "danger-full-access":
        return ""
    program = find_program(config.command, os.environ.get("PATH"))
    problem = anyio.run(try_sandbox, program, dict(os.environ))
    return NO_SANDBOX.format(problem=problem) if problem else ""


def translator() -> LineTranslator:
    from pilothouse.engines.codex.replay import CodexReplay

    return CodexReplay()


def find_logs(config: CodexConfig, word: str) -> Sequence[SessionLog]:
    from pilothouse.engines.codex.session_watch import find_watched

    return find_watched(config, os.environ, word)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    from pilothouse.engines.codex.calls import call_of

    return call_of(payload)


def resume_lines(config: CodexConfig) -> ResumeLines:
    return make_resume_lines(
        _ID,
        r"codex[ \t]+resume[ \t]+",
        "codex resume",
        is_thread_id,
        shown=config.resume_line,
        beside="codex resume --remote unix://{state}/codex/app-server.sock {id}",
    )


def classes() -> tuple[type, type]:
    from pilothouse.engines.codex.engine import CodexEngine
    from pilothouse.engines.codex.session import CodexSession

    return CodexEngine, CodexSession


ENGINE = EngineSpec(
    id=_ID,
    title="Codex",
    config=CodexConfig,
    build=build,
    probe=probe,
    examine=examine,
    login=login,
    translator=translator,
    find_logs=find_logs,
    resume_lines=resume_lines,
    call_of=call_of,
    classes=classes,
    trusted_files=(
        TrustedFile(".codex", "settings, hooks, rules and MCP servers; in full access only"),
        TrustedFile(".agents/skills", "skills, which may run programs"),
        TrustedFile(".codex/skills", "skills, which may run programs"),
        TrustedFile("AGENTS.md", "instructions", runs=False),
        *(
            TrustedFile(name, "words for the system prompt", runs=False)
            for name in (*WORKSPACE_FILES, BOOTSTRAP)
        ),
    ),
)
