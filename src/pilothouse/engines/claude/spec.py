"""How the Claude engine presents itself. Cheap to import: what it needs is loaded when it is used."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence

from pilothouse.core.engine import (
    Engine,
    EngineHost,
    EngineSpec,
    EngineStatus,
    LineTranslator,
    Obeyed,
    ResumeLines,
    SessionLog,
)
from pilothouse.core.ids import EngineId
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.context_files import BOOTSTRAP, WORKSPACE_FILES
from pilothouse.engines.claude.old_programs import INSTALL

VERSION_WITHIN_S = 10.0


def build(config: ClaudeConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.claude.engine import ClaudeEngine

    return ClaudeEngine(config, host)


def probe(config: ClaudeConfig) -> EngineStatus:
    """The program and its version. Whether it is logged in, only a turn can tell."""
    return look_for(config, os.environ.get("PATH"))


def look_for(config: ClaudeConfig, path: str | None) -> EngineStatus:
    program = shutil.which(config.command, path=path)
    if program is None:
        problem = f"There is no {config.command!r} on PATH."
        fix = INSTALL if config.command == "claude" else "Correct engines.claude.command"
        return EngineStatus(False, problem=problem, fix=fix)
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=VERSION_WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return EngineStatus(False, problem=f"{program} does not run: {error}", fix=INSTALL)
    version = re.search(r"\d+\.\d+\.\d+", done.stdout)
    if done.returncode or version is None:
        return EngineStatus(False, problem=f"{program} --version says nothing that we know.", fix=INSTALL)
    return EngineStatus(True, version=version[0])


def examine(config: ClaudeConfig) -> str:
    """Tries the gate with the installed program, whatever was proven before."""
    import anyio

    from pilothouse.engines.claude.gate_proof import try_gate

    program = shutil.which(config.command)
    problem = anyio.run(try_gate, program, dict(os.environ), {}) if program else ""
    return f"Turns start in full access only, because {problem}. Update it: {INSTALL}" if problem else ""


def translator() -> LineTranslator:
    from pilothouse.engines.claude.translate import Translator

    return Translator()


def find_logs(config: ClaudeConfig, word: str) -> Sequence[SessionLog]:
    from pilothouse.engines.claude.watched import find_watched

    return find_watched(os.environ, word)


def resume_lines(config: ClaudeConfig) -> ResumeLines:
    from pilothouse.engines.claude import resume_lines as lines

    return ResumeLines(
        lines.parse_resume_lines,
        lines.read_token,
        lines.render_session_command,
        lines.render_resume_line,
        config.resume_line,
    )


ENGINE = EngineSpec(
    id=EngineId("claude"),
    title="Claude Code",
    config=ClaudeConfig,
    build=build,
    probe=probe,
    aliases=("claude-code",),
    examine=examine,
    translator=translator,
    find_logs=find_logs,
    resume_lines=resume_lines,
    obeys=(
        Obeyed(".claude/settings.json", "settings and hooks, which run programs"),
        Obeyed(".claude/settings.local.json", "settings and hooks, which run programs"),
        Obeyed(".mcp.json", "MCP servers, which are programs"),
        Obeyed(".claude/agents", "sub-agents"),
        Obeyed(".claude/commands", "commands"),
        Obeyed(".claude/skills", "skills, which may run programs"),
        *(Obeyed(name, "instructions") for name in ("CLAUDE.md", "CLAUDE.local.md", ".claude/CLAUDE.md")),
        *(Obeyed(name, "words for the system prompt") for name in (*WORKSPACE_FILES, BOOTSTRAP)),
    ),
)
