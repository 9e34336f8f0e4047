"""The system prompt of a session: our own words, the place, the instructions of people and of the repository, the skills."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.native.agents_files import find_root, read_agents, render_agents
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.skills import Skill, find_skills, render_catalogue

BUILT_IN = Path(__file__).with_name("system.md")
VARIABLE = "PILOTHOUSE_SYSTEM_PROMPT_PATH"
MAX_CHARS = 256_000


class Instructions(Struct, frozen=True):
    system: str
    skills: tuple[Skill, ...] = ()
    agents_root: str = ""
    """Empty if the workspace is not trusted."""
    problems: tuple[str, ...] = ()


def gather_instructions(
    config: NativeConfig, brief: Brief, context: str, environment: Mapping[str, str]
) -> Instructions:
    """Read everything that a session's system prompt is made of. Raises `EngineError`."""
    workspace = os.path.realpath(brief.workspace)
    root = find_root(workspace) if brief.trusted else ""
    agents = render_agents(read_agents(root, workspace)) if root else ""
    home = environment.get("HOME", "")
    places = [*([workspace] if brief.trusted else []), *([home] if home else [])]
    skills, problems = find_skills(list(dict.fromkeys(places)))
    parts = (
        _own_words(config),
        f"# Place\n\nThe workspace is {workspace}, on {platform.system()}.",
        brief.system_prompt,
        config.append_system_prompt or "",
        context,
        agents,
        render_catalogue(skills),
    )
    return Instructions("\n\n".join(filter(None, map(str.strip, parts))), skills, root, problems)


def _own_words(config: NativeConfig) -> str:
    path = config.system_prompt_file
    if not path:
        return BUILT_IN.read_text()
    try:
        return Path(path).expanduser().read_text("utf-8")[:MAX_CHARS]
    except (OSError, UnicodeError) as error:
        text = f"The system prompt {path} cannot be read: {error}. Correct system_prompt_file or {VARIABLE}."
        raise EngineError(Failure("bad_request", text)) from error
