"""The real agents, pinned, with a home of their own and a scripted model behind them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
from tests.engines.acp.model_api import ModelApi, Reply, Request
from tests.engines.acp.rig import Scripted
from tests.engines.npm_program import NpmPackages, NpmProgram

from pilothouse.core.policy import Policy
from pilothouse.engines.acp.agents import AGENTS

HERE = Path(__file__).parent / "npm"
SCHEMA = NpmPackages("acp-schema", "2.4.0", HERE / "schema")
BRIDGES = NpmPackages("acp-bridges", "2.6.0", HERE / "bridges")
"""The bridges to Claude Code and Codex, without these programs: those of their own engines' tests are used."""
PROGRAMS = {
    "gemini": NpmProgram("gemini", "0.61.0", HERE / "gemini", ".bin/gemini"),
    "qwen": NpmProgram(
        "qwen", "0.24.4", HERE / "qwen", "@qwen-code/qwen-code/cli.js", "node-linux-*/bin/node"
    ),
    "copilot": NpmProgram("copilot", "1.0.102", HERE / "copilot", "@github/copilot-linux-*/copilot"),
}
_QUIET: dict[str, Any] = {
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False},
}
SETTINGS = {
    ".gemini": {**_QUIET, "security": {"auth": {"selectedType": "gemini-api-key"}}},
    ".qwen": {**_QUIET, "security": {"auth": {"selectedType": "openai"}}, "model": {"name": "gpt-4"}},
}
"""A user's own settings, with a login that is a key."""


def real_agent(name: str, folder: Path, api: ModelApi, policy: Policy) -> Scripted:
    """The engine of a real agent."""
    home = folder / "home"
    for place, settings in SETTINGS.items():
        (home / place).mkdir(parents=True)
        (home / place / "settings.json").write_text(json.dumps(settings))
    command = [*PROGRAMS[name].command, "--acp"]
    made = Scripted(folder, agent=AGENTS[name], policy=policy, command=command, open_s=60.0)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "GEMINI_API_KEY": "no-key-at-all",
        "GOOGLE_GEMINI_BASE_URL": api.url,
        "OPENAI_API_KEY": "no-key-at-all",
        "OPENAI_BASE_URL": f"{api.url}/v1",
        "OPENAI_MODEL": "gpt-4",
        "COPILOT_PROVIDER_BASE_URL": f"{api.url}/v1",
        "COPILOT_PROVIDER_API_KEY": "no-key-at-all",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_MODEL": "gpt-4",
    }
    made.host = msgspec.structs.replace(made.host, environment=environment)
    return made


def obedient(request: Request) -> Reply:
    """A model that makes the call which the prompt names: `CALL tool {input}`."""
    _, named, call = request.prompt.rpartition("CALL ")
    if not named or request.results:
        return Reply(f"Done: {' '.join(request.results)[:300]}")
    tool, _, given = call.partition(" ")
    return Reply(tool=tool, given=json.loads(given))
