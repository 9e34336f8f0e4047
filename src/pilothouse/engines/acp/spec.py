"""The entry point of ACP agents. Cheap to import: the rest is loaded when it is used.

The engine `acp` is the type: `[engines.NAME] type = "acp"` makes an engine of any command. The ready-made agents are the same
spec under their own names.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from functools import partial
from typing import Any

from pilothouse.core.call import Call
from pilothouse.core.engine import (
    Engine,
    EngineHost,
    EngineSpec,
    EngineStatus,
    LineTranslator,
    ResumeLines,
    TrustedFile,
)
from pilothouse.core.ids import EngineId
from pilothouse.engines.acp.agents import AGENTS, Agent
from pilothouse.engines.acp.config import AcpConfig
from pilothouse.engines.resume_lines import is_uuid, make_resume_lines
from pilothouse.engines.workspace_files import BOOTSTRAP, WORKSPACE_FILES

TYPE = EngineId("acp")
VERSION_WITHIN_S = 20.0
NOT_CHECKED = "login not checked"
FULL_ACCESS = "full access only"
VARIES = ("steer", "images", "resume", "sessions", "commands", "models")


def build(id: EngineId, agent: Agent, config: AcpConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.acp.engine import AcpEngine

    return AcpEngine(id, agent, config, host)


def probe(id: EngineId, agent: Agent, config: AcpConfig) -> EngineStatus:
    """Find the program and its version. Only a turn can tell whether it speaks ACP, and whether its login is valid."""
    command = config.command or list(agent.command)
    if not command:
        fix = f'Name its program: command = ["…"] under [engines.{id}]'
        return EngineStatus(False, problem="No program is named.", fix=fix)
    program = shutil.which(os.path.expanduser(command[0]))
    if program is None:
        fix = agent.install if agent.install and config.command is None else f"Correct engines.{id}.command"
        return EngineStatus(False, problem=f"There is no {command[0]!r} on PATH.", fix=fix)
    try:
        version = "" if config.command is not None else _version(program)
    except OSError as error:
        return EngineStatus(False, problem=f"{program} does not run: {error.strerror}.", fix=agent.install)
    asks = agent.asks if config.asks_first is None else config.asks_first
    return EngineStatus(True, version, note=NOT_CHECKED if asks else f"{NOT_CHECKED}, {FULL_ACCESS}")


def _version(program: str) -> str:
    """Return the version; empty if the program tells none. Raises `OSError` where it does not run."""
    from pilothouse.processes import read_version

    try:
        found = re.search(r"\d+\.\d+\.\d+", read_version(program, VERSION_WITHIN_S))
    except TimeoutError:
        return ""
    return found[0] if found else ""


def is_found(agent: Agent) -> bool:
    return bool(agent.command) and shutil.which(agent.command[0]) is not None


def translator(id: EngineId, agent: Agent) -> LineTranslator:
    from pilothouse.engines.acp.replay import AcpReplay

    return AcpReplay(id, agent)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    from pilothouse.engines.acp.calls import call_of

    return call_of(payload)


def resume_lines(id: EngineId, agent: Agent, config: AcpConfig) -> ResumeLines:
    program = re.escape(agent.resume.split()[0])
    words = rf"{program}[ \t]+(?:--resume|-r|--session-id)(?:[ \t]+|=)"
    return make_resume_lines(id, words, agent.resume, is_uuid, shown=config.resume_line)


def classes() -> tuple[type, type]:
    from pilothouse.engines.acp.engine import AcpEngine
    from pilothouse.engines.acp.session import AcpSession

    return AcpEngine, AcpSession


def named(name: str) -> EngineSpec:
    """Return the spec of a ready-made agent, or of a section that names its own command."""
    id = EngineId(name)
    agent = AGENTS.get(name) or Agent("ACP agents" if id == TYPE else name)
    files = (*WORKSPACE_FILES, BOOTSTRAP)
    words = [TrustedFile(file, "words for the first prompt", runs=False) for file in files]
    return EngineSpec(
        id=id,
        title=agent.title,
        config=AcpConfig,
        build=partial(build, id, agent),
        probe=partial(probe, id, agent),
        translator=partial(translator, id, agent),
        resume_lines=partial(resume_lines, id, agent) if agent.resume else None,
        call_of=call_of,
        classes=classes,
        varies=(*VARIES, *(() if agent.asks else ("ask",)), *(("terminal",) if id == TYPE else ())),
        trusted_files=(*agent.trusted_files, *words),
        named=named,
        is_found=partial(is_found, agent) if name in AGENTS or id == TYPE else None,
    )


ENGINE = named(TYPE)
