"""The answer to `probe` for engines with a program of their own: is it there, does it run, which version is it?"""

from __future__ import annotations

import re

from pilothouse.core.engine import EngineStatus

VERSION_WITHIN_S = 20.0
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def missing_program(engine: str, command: str, install: str) -> EngineStatus:
    """`install` is the fix for an engine's usual program, which has its name."""
    fix = install if command == engine else f"Correct engines.{engine}.command"
    return EngineStatus(False, problem=f"There is no {command!r} on PATH.", fix=fix)


def read_status(program: str, install: str) -> EngineStatus:
    from pilothouse.processes import read_version

    try:
        version = _VERSION.search(read_version(program, VERSION_WITHIN_S))
    except (OSError, TimeoutError) as error:
        return EngineStatus(False, problem=f"{program} does not run: {error}", fix=install)
    if version is None:
        return EngineStatus(False, problem=f"{program} --version prints no version.", fix=install)
    return EngineStatus(True, version=version[0])
