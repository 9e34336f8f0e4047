"""The entry point of the script engine. Cheap to import: the engine is loaded when it is built."""

from __future__ import annotations

import shutil

from pilothouse.core.engine import Engine, EngineHost, EngineSpec, EngineStatus, LineTranslator
from pilothouse.core.ids import EngineId
from pilothouse.engines.script.config import ScriptConfig
from pilothouse.engines.script.steps import check_script


def build(config: ScriptConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.script.engine import ScriptEngine

    return ScriptEngine(config, host)


def translator() -> LineTranslator:
    from pilothouse.engines.script.replay import ScriptReplay

    return ScriptReplay()


def probe(config: ScriptConfig) -> EngineStatus:
    """Check that the configured program or script exists, and that the script is valid."""
    if config.command is not None:
        return _probe_command(config.command)
    problems = check_script(config.script) if config.script else []
    if problems:
        return EngineStatus(
            False, problem="\n".join(problems), fix="Correct the script; docs/engines/script.md"
        )
    return EngineStatus(True, version="script" if config.script else "demo")


def _probe_command(command: list[str]) -> EngineStatus:
    if command and shutil.which(command[0]):
        return EngineStatus(True, version=command[0])
    problem = f"engines.script.command names {command[:1]}, which is not a program on this machine."
    return EngineStatus(
        False, problem=problem, fix="Install it, or give its full path in engines.script.command"
    )


ENGINE = EngineSpec(
    id=EngineId("script"),
    title="Script",
    config=ScriptConfig,
    build=build,
    probe=probe,
    aliases=("demo",),
    translator=translator,
)
