"""The entry point of the Claude engine, and its resume lines. Cheap to import: the rest is loaded when it is used.

Both spellings of a resume line count: ours (`claude-code resume ID`) and Claude's own (`claude --resume ID`, `-r ID`).
"""

from __future__ import annotations

import os
import shutil
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
from pilothouse.engines.claude.config import ENGINE_ID, ClaudeConfig
from pilothouse.engines.claude.old_program import INSTALL
from pilothouse.engines.program_status import missing_program, read_status
from pilothouse.engines.resume_lines import is_uuid, make_resume_lines
from pilothouse.engines.workspace_files import BOOTSTRAP, WORKSPACE_FILES

_RESUME = r"claude(?:-code)?[ \t]+(?:resume[ \t]+|--resume(?:[ \t]+|=)|-r[ \t]+)"


def build(config: ClaudeConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.claude.engine import ClaudeEngine

    return ClaudeEngine(config, host)


def probe(config: ClaudeConfig) -> EngineStatus:
    """Find the program and its version. `login` asks it whether it is logged in, which takes longer."""
    return look_for(config, os.environ.get("PATH"))


def look_for(config: ClaudeConfig, path: str | None) -> EngineStatus:
    program = shutil.which(config.command, path=path)
    if program is None:
        return missing_program(ENGINE_ID, config.command, INSTALL)
    return read_status(program, INSTALL)


def examine(config: ClaudeConfig) -> str:
    """Try the gate with the installed program, whatever was proven before."""
    import anyio

    from pilothouse.engines.claude.gate_proof import try_gate
    from pilothouse.processes import Launcher

    program = shutil.which(config.command)
    problem = anyio.run(try_gate, Launcher(), program, dict(os.environ), {}) if program else ""
    return f"Turns start in full access only, because {problem}. Update it: {INSTALL}" if problem else ""


def login(config: ClaudeConfig) -> EngineStatus:
    from pilothouse.engines.claude.login import check_login

    return check_login(config)


def try_model(config: ClaudeConfig) -> EngineStatus:
    from pilothouse.engines.claude.login import try_model

    return try_model(config)


def translator() -> LineTranslator:
    from pilothouse.engines.claude.translate import Translator

    return Translator()


def find_logs(config: ClaudeConfig, word: str) -> Sequence[SessionLog]:
    from pilothouse.engines.claude.session_watch import find_watched

    return find_watched(os.environ, word)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    from pilothouse.engines.claude.calls import call_of

    return call_of(payload)


def resume_lines(config: ClaudeConfig) -> ResumeLines:
    return make_resume_lines(ENGINE_ID, _RESUME, "claude --resume", is_uuid, shown=config.resume_line)


def classes() -> tuple[type, type]:
    from pilothouse.engines.claude.engine import ClaudeEngine
    from pilothouse.engines.claude.session import ClaudeSession

    return ClaudeEngine, ClaudeSession


ENGINE = EngineSpec(
    id=EngineId("claude"),
    title="Claude Code",
    short_name="Claude",
    config=ClaudeConfig,
    build=build,
    probe=probe,
    aliases=("claude-code",),
    compact_line="/compact",
    falls_back=True,
    examine=examine,
    login=login,
    try_model=try_model,
    translator=translator,
    find_logs=find_logs,
    resume_lines=resume_lines,
    call_of=call_of,
    classes=classes,
    trusted_files=(
        TrustedFile(".claude/settings.json", "settings and hooks, which run programs"),
        TrustedFile(".claude/settings.local.json", "settings and hooks, which run programs"),
        TrustedFile(".mcp.json", "MCP servers, which are programs"),
        TrustedFile(".claude/hooks", "programs of hooks"),
        TrustedFile(".claude/agents", "sub-agents"),
        TrustedFile(".claude/commands", "commands"),
        TrustedFile(".claude/skills", "skills, which may run programs"),
        TrustedFile(".claude/plugins", "plugins, which may run programs"),
        TrustedFile(".claude/workflows", "workflows, which may run programs"),
        *(
            TrustedFile(name, "instructions", runs=False)
            for name in ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md", ".claude/rules")
        ),
        *(
            TrustedFile(name, "words for the system prompt", runs=False)
            for name in (*WORKSPACE_FILES, BOOTSTRAP)
        ),
    ),
)
