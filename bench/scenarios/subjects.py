"""The real engines: the program of each, its section in the configuration, its environment, its model, and what it cannot do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.measuring.line_program import open_program
from bench.scenarios import dialects
from bench.scenarios.model import Api, Move
from tests.engines.acp.model_api import open_model
from tests.engines.acp.real import PROGRAMS, real_agent
from tests.engines.claude.api import ScriptedApi as ClaudeApi
from tests.engines.claude.binary import CLAUDE
from tests.engines.claude.rig import Rig as ClaudeRig
from tests.engines.codex.api import ScriptedApi as CodexApi
from tests.engines.codex.binary import CODEX
from tests.engines.codex.rig import Rig as CodexRig
from tests.engines.npm_program import NpmProgram
from tests.engines.opencode.api import ChatApi
from tests.engines.opencode.binary import OPENCODE
from tests.engines.opencode.rig import Rig as OpenCodeRig

from pilothouse.engines.acp.agents import AGENTS
from pilothouse.engines.acp.link import GREETING
from pilothouse.engines.claude.gate_proof import PROOFS, remember_proof
from pilothouse.testing.policy import FixedPolicy

Script = Callable[[Any], Any]
APPROVALS = frozenset({"approve", "deny", "deny-with-reason", "always", "ask-over-restart"})


class Subject(NamedTuple):
    program: NpmProgram
    speak: Callable[[Move], Any]
    api: Callable[[Script], AbstractContextManager[Api]]
    prepare: Callable[[Path, Any], dict[str, str]]
    """Make a user's home, and `work` beside it; return the environment of the gateway."""
    section: Callable[[], Mapping[str, Any]]
    cannot: Callable[[Path, Mapping[str, str]], frozenset[str]] | None = None
    """The scenarios for which the engine lacks the ability."""
    mode: str = "minimal"


def _serving(kind: Callable[[Script], Any]) -> Callable[[Script], AbstractContextManager[Api]]:
    def serve(script: Script) -> AbstractContextManager[Api]:
        return kind(script).serving()

    return serve


def _rigged(rig: Callable[[Path, Any], Any]) -> Callable[[Path, Any], dict[str, str]]:
    def prepare(folder: Path, api: Any) -> dict[str, str]:
        return rig(folder, api).environment()

    return prepare


def _claude(folder: Path, api: ClaudeApi) -> dict[str, str]:
    found = folder / "gateway" / "state" / "engines" / "claude" / PROOFS
    remember_proof(found, str(CLAUDE.path()), CLAUDE.version)
    return ClaudeRig(folder, api).environment()


def _agent(name: str, folder: Path, api: Any) -> dict[str, str]:
    made = real_agent(name, folder, api, FixedPolicy())
    patient = {
        "general": {"maxAttempts": 2},
        "model": {"name": "gpt-4", "generationConfig": {"maxRetries": 0}},
    }
    for place, more in ((".gemini", {"general": patient["general"]}), (".qwen", patient)):
        file = folder / "home" / place / "settings.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **more}))
    return dict(made.host.environment)


def _agent_cannot(name: str, folder: Path, environment: Mapping[str, str]) -> frozenset[str]:
    """Ask the agent itself what it can do. None of them has a tool in this mode by which it asks a question."""
    with open_program([*PROGRAMS[name].command, "--acp"], environment, str(folder)) as program:
        program.write(GREETING)
        told = json.loads(program.read_to(b'"id":0'))["result"]
    can = told.get("agentCapabilities") or {}
    lacks = {
        "steer": not ((told.get("_meta") or {}).get("steering") or {}).get("supported"),
        "image": not (can.get("promptCapabilities") or {}).get("image"),
        "engine-killed": not can.get("loadSession"),
        "gateway-killed": not can.get("loadSession"),
        # Its workspace is not trusted, and there such an agent starts no MCP server, ours neither.
        "long-question": bool(AGENTS[name].untrusted),
    }
    unasked = frozenset[str]() if AGENTS[name].asks else APPROVALS
    return frozenset({"question", *(scenario for scenario, lacking in lacks.items() if lacking)}) | unasked


def _agent_subject(name: str, tool: str, **more: Any) -> Subject:
    return Subject(
        PROGRAMS[name],
        partial(dialects.speak_acp, tool=tool),
        open_model,
        partial(_agent, name),
        lambda: {"command": [*PROGRAMS[name].command, "--acp"], **more},
        partial(_agent_cannot, name),
        mode="minimal" if AGENTS[name].asks else "full-access",
    )


SUBJECTS: Mapping[str, Subject] = {
    "claude": Subject(
        CLAUDE,
        dialects.speak_claude,
        _serving(ClaudeApi),
        _claude,
        lambda: {
            "command": str(CLAUDE.path()),
            "environment": ["ANTHROPIC_*", "CLAUDE_CODE_*", "DISABLE_*"],
            "max_retries": 1,
        },
    ),
    "codex": Subject(
        CODEX,
        dialects.speak_codex,
        _serving(CodexApi),
        _rigged(CodexRig),
        lambda: {"command": str(CODEX.path())},
    ),
    "opencode": Subject(
        OPENCODE,
        dialects.speak_opencode,
        _serving(ChatApi),
        _rigged(OpenCodeRig),
        lambda: {
            "command": str(OPENCODE.path()),
            "environment": ["OPENCODE_DISABLE_MODELS_FETCH"],
            "max_retries": 1,
        },
    ),
    "gemini": _agent_subject("gemini", "run_shell_command", model="gemini-2.5-pro"),
    "qwen": _agent_subject("qwen", "run_shell_command"),
    "copilot": _agent_subject("copilot", "bash"),
}
