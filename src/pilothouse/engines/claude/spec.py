"""The entry point of the Claude engine, and its resume lines. Cheap to import: the rest is loaded when it is used.

A resume line carries a session between a chat and a terminal. Both spellings count, ours (`claude-code resume ID`) and
Claude's own (`claude --resume ID`, `-r ID`), with or without backticks, also with the `cd` that `/session` prints. A line
counts only if nothing else stands on it; of several, the last wins; none of them reaches the model.
"""

from __future__ import annotations

import os
import re
import shlex
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
    Obeyed,
    ResumeLines,
    SessionLog,
)
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.engines.claude.config import ClaudeConfig
from pilothouse.engines.claude.launch import INSTALL, is_session_id
from pilothouse.engines.claude.turns import ENGINE_ID
from pilothouse.engines.workspace_files import BOOTSTRAP, WORKSPACE_FILES

# Every message is searched: two adjacent spans of blanks would take quadratic time on a long one.
_LINE = re.compile(
    r"""^[ \t]*(?:(?P<tick>`+)[ \t]*)?(?:\$[ \t]+)?
        (?:cd[ \t]+(?P<cwd>'(?:[^'\n]|'"'"')*'|"[^"\n]*"|[^\s`&;|]+)[ \t]*&&[ \t]*)?
        claude(?:-code)?[ \t]+(?:resume[ \t]+|--resume(?:[ \t]+|=)|-r[ \t]+)
        (?P<id>[0-9a-f][0-9a-f-]{7,63})
        (?(tick)[ \t]*(?P=tick))[ \t]*\r?$\n?""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_EMPTY_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n\s*```[ \t]*\r?$\n?", re.MULTILINE)

VERSION_WITHIN_S = 10.0


def parse_resume_lines(text: str) -> tuple[ResumeToken | None, str]:
    """Return the session to resume, if any, and the text without resume lines. The folder is empty unless a line has one."""
    found = list(_LINE.finditer(text))
    if not found:
        return None, text
    last = found[-1]
    rest = _EMPTY_FENCE.sub("", _LINE.sub("", text)).strip()
    return ResumeToken(ENGINE_ID, last["id"].lower(), _unquoted(last["cwd"] or "")), rest


def read_token(word: str) -> ResumeToken | None:
    """Read a bare session id."""
    id = word.strip("` ").lower()
    return ResumeToken(ENGINE_ID, id) if is_session_id(id) else None


def render_resume_line(token: ResumeToken) -> str:
    """Return a short line for under an answer, which `parse_resume_lines` understands."""
    return f"`claude --resume {token.value}`"


def render_session_command(token: ResumeToken) -> str:
    """Return the command for a terminal, for `/session`. Claude finds a session by the folder that it ran in."""
    command = f"claude --resume {shlex.quote(token.value)}"
    return f"cd {shlex.quote(token.cwd)} && {command}" if token.cwd else command


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return ""


def build(config: ClaudeConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.claude.engine import ClaudeEngine

    return ClaudeEngine(config, host)


def probe(config: ClaudeConfig) -> EngineStatus:
    """Find the program and its version. Only a turn can tell whether it is logged in."""
    return look_for(config, os.environ.get("PATH"))


def look_for(config: ClaudeConfig, path: str | None) -> EngineStatus:
    from pilothouse.processes import read_version

    program = shutil.which(config.command, path=path)
    if program is None:
        problem = f"There is no {config.command!r} on PATH."
        fix = INSTALL if config.command == "claude" else "Correct engines.claude.command"
        return EngineStatus(False, problem=problem, fix=fix)
    try:
        version = re.search(r"\d+\.\d+\.\d+", read_version(program, VERSION_WITHIN_S))
    except (OSError, TimeoutError) as error:
        return EngineStatus(False, problem=f"{program} does not run: {error}", fix=INSTALL)
    if version is None:
        return EngineStatus(False, problem=f"{program} --version prints no version.", fix=INSTALL)
    return EngineStatus(True, version=version[0])


def examine(config: ClaudeConfig) -> str:
    """Try the gate with the installed program, whatever was proven before."""
    import anyio

    from pilothouse.engines.claude.gate_proof import try_gate
    from pilothouse.processes import Launcher

    program = shutil.which(config.command)
    problem = anyio.run(try_gate, Launcher(), program, dict(os.environ), {}) if program else ""
    return f"Turns start in full access only, because {problem}. Update it: {INSTALL}" if problem else ""


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
    return ResumeLines(
        parse_resume_lines,
        read_token,
        render_session_command,
        render_resume_line,
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
    call_of=call_of,
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
