"""The answer to `probe` for engines with a program of their own: is it there, does it run, which version is it?"""

from __future__ import annotations

import re

import msgspec

from pilothouse.core.engine import EngineStatus
from pilothouse.core.outcome import Failure

VERSION_WITHIN_S = 20.0
TOO_OLD = "{text}\nIs it too old? Version {found} was found, and Pilothouse was tested with {tested}. To update it: {install}"
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def missing_program(engine: str, command: str, install: str) -> EngineStatus:
    """`install` is the fix for an engine's usual program, which has its name."""
    fix = install if command == engine else f"Correct engines.{engine}.command"
    return EngineStatus(False, problem=f"There is no {command!r} on PATH.", fix=fix)


def older(found: str, than: str) -> bool:
    """Compare versions such as 0.90.1; one that cannot be read is not older."""
    both = [_VERSION.search(text) for text in (found, than)]
    mine, other = ([int(part) for part in one[0].split(".")] if one else [] for one in both)
    return bool(mine) and mine < other


async def explain_old(failure: Failure, program: str, tested: str, install: str) -> Failure:
    """Add to the failure of a program that ended before it was ready that it is older than what was tested, if it is."""
    import anyio.to_thread

    from pilothouse.processes import read_version

    try:
        told = await anyio.to_thread.run_sync(read_version, program, VERSION_WITHIN_S, abandon_on_cancel=True)
    except (OSError, TimeoutError):
        return failure
    found = _VERSION.search(told)
    if found is None or not older(found[0], tested):
        return failure
    text = TOO_OLD.format(text=failure.text, found=found[0], tested=tested, install=install)
    return msgspec.structs.replace(failure, kind="bad_request", text=text)


def read_status(program: str, install: str) -> EngineStatus:
    from pilothouse.processes import read_version

    try:
        version = _VERSION.search(read_version(program, VERSION_WITHIN_S))
    except (OSError, TimeoutError) as error:
        return EngineStatus(False, problem=f"{program} does not run: {error}", fix=install)
    if version is None:
        return EngineStatus(False, problem=f"{program} --version prints no version.", fix=install)
    return EngineStatus(True, version=version[0])
