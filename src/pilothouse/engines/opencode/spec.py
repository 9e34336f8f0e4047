"""The entry point of the OpenCode engine. Cheap to import: the rest is loaded when it is used."""

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
from pilothouse.engines.opencode.config import OpenCodeConfig
from pilothouse.engines.opencode.message_ids import SESSION, is_session_id
from pilothouse.engines.resume_lines import make_resume_lines
from pilothouse.engines.workspace_files import BOOTSTRAP, WORKSPACE_FILES

_ID = EngineId("opencode")


def build(config: OpenCodeConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.opencode.engine import OpenCodeEngine

    return OpenCodeEngine(config, host)


def probe(config: OpenCodeConfig) -> EngineStatus:
    """Find the program and its version. `login` asks it for its logins, which takes longer."""
    from pilothouse.engines.opencode.program import look_for

    return look_for(config, os.environ.get("PATH"))


def login(config: OpenCodeConfig) -> EngineStatus:
    from pilothouse.engines.opencode.login import check_login

    return check_login(config)


def translator() -> LineTranslator:
    from pilothouse.engines.opencode.replay import OpenCodeReplay

    return OpenCodeReplay()


def find_logs(config: OpenCodeConfig, word: str) -> Sequence[SessionLog]:
    from pilothouse.engines.opencode.session_watch import find_watched

    return find_watched(os.environ, word)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    from pilothouse.engines.opencode.calls import call_of

    return call_of(payload)


def resume_lines(config: OpenCodeConfig) -> ResumeLines:
    words = r"opencode[ \t]+(?:-s|--session)(?:[ \t]+|=)"
    return make_resume_lines(
        _ID, words, "opencode -s", is_session_id, shown=config.resume_line, id_pattern=SESSION
    )


def classes() -> tuple[type, type]:
    from pilothouse.engines.opencode.engine import OpenCodeEngine
    from pilothouse.engines.opencode.session import OpenCodeSession

    return OpenCodeEngine, OpenCodeSession


ENGINE = EngineSpec(
    id=_ID,
    title="OpenCode",
    config=OpenCodeConfig,
    build=build,
    probe=probe,
    login=login,
    translator=translator,
    find_logs=find_logs,
    resume_lines=resume_lines,
    call_of=call_of,
    classes=classes,
    trusted_files=(
        TrustedFile("opencode.json", "settings, plugins, providers and MCP servers, which run programs"),
        TrustedFile("opencode.jsonc", "settings, plugins, providers and MCP servers, which run programs"),
        TrustedFile(".opencode", "settings, plugins, tools, agents, commands and skills, which run programs"),
        TrustedFile(".claude/skills", "skills, which may run programs"),
        TrustedFile(".agents/skills", "skills, which may run programs"),
        *(TrustedFile(name, "instructions", runs=False) for name in ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")),
        *(
            TrustedFile(name, "words for the system prompt", runs=False)
            for name in (*WORKSPACE_FILES, BOOTSTRAP)
        ),
    ),
)
