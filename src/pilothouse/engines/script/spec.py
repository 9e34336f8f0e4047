"""The entry point of the script engine. Cheap to import: the engine is loaded when it is built."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.core.call import Call
from pilothouse.core.engine import Engine, EngineHost, EngineSpec, EngineStatus, LineTranslator
from pilothouse.core.ids import EngineId
from pilothouse.engines.script.config import ScriptConfig
from pilothouse.engines.script.steps import check_script

VARIES = ("steer",)
"""A program says in its hello whether it offers this; the demo does."""


def build(config: ScriptConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.script.engine import ScriptEngine

    return ScriptEngine(config, host)


def translator() -> LineTranslator:
    from pilothouse.engines.script.translate import ScriptReplay

    return ScriptReplay()


def call_of(payload: Mapping[str, Any]) -> Call | None:
    from pilothouse.engines.script.translate import call_of

    return call_of(payload)


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


def classes() -> tuple[type, type]:
    from pilothouse.engines.script.engine import ScriptEngine
    from pilothouse.engines.script.session import ScriptSession

    return ScriptEngine, ScriptSession


def program_engine(id: str, title: str, command: Sequence[str]) -> EngineSpec:
    """Return the spec of an engine that is a program: `command` speaks the protocol of docs/engines/script.md.

    Its section `[engines.<id>]` has the settings of the script engine; a `command` there replaces this one.
    """

    def filled(config: ScriptConfig) -> ScriptConfig:
        return replace(config, command=config.command or list(command))

    def build(config: ScriptConfig, host: EngineHost) -> Engine:
        from pilothouse.engines.script.engine import ScriptEngine

        return ScriptEngine(filled(config), host, EngineId(id))

    return EngineSpec(
        id=EngineId(id),
        title=title,
        config=ScriptConfig,
        build=build,
        probe=lambda config: probe(filled(config)),
        translator=translator,
        call_of=call_of,
        classes=classes,
        varies=VARIES,
    )


def _probe_command(command: list[str]) -> EngineStatus:
    if command and shutil.which(command[0]):
        return EngineStatus(True, version=command[0])
    problem = f"The command {command[:1]} is not a program on this machine."
    return EngineStatus(
        False,
        problem=problem,
        fix="Install it, or give its full path as command in the section of this engine",
    )


ENGINE = EngineSpec(
    id=EngineId("script"),
    title="Script",
    short_name="The demo",
    config=ScriptConfig,
    build=build,
    probe=probe,
    aliases=("demo",),
    translator=translator,
    call_of=call_of,
    classes=classes,
    varies=VARIES,
)
