"""Finds the program, and tells OpenCode 1 from other servers: version 2 has another interface, behind the same command."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from pilothouse.core.engine import EngineStatus
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.opencode.config import OpenCodeConfig
from pilothouse.engines.program_status import missing_program, read_status

INSTALL = "npm install -g opencode-ai@1"
NOT_FOUND = "OpenCode was not found where the gateway runs. Install it there: {install}; or name its file in engines.opencode.command."
VERSION_2 = (
    "This is OpenCode {version}, and Pilothouse drives version 1. Install that one ({install}), or use version 2 as an ACP agent "
    "(`opencode acp`)."
)
A_PAGE = (
    "`opencode serve` answered with a web page, as OpenCode 2 does. Pilothouse drives version 1: install it ({install}), or use "
    "version 2 as an ACP agent (`opencode acp`)."
)
NO_SERVER = "`opencode serve` did not answer like a server of OpenCode 1 (HTTP {status}). Install that version: {install}"
_NATIVE = "opencode-*/bin/opencode"


def find_program(command: str, path: str | None) -> str:
    """Return the path of the real program, not of npm's script around it. Raises `EngineError` if there is none."""
    found = shutil.which(os.path.expanduser(command), path=path)
    if found is None:
        raise EngineError(Failure("bad_request", NOT_FOUND.format(install=INSTALL)))
    return _native(Path(found)) or found


def _native(program: Path) -> str:
    """Return the real program behind a script of npm; empty if `program` is the real one."""
    real = program.resolve()
    try:
        with real.open("rb") as file:
            if file.read(2) != b"#!":
                return ""
    except OSError:
        return ""
    package = real.parent.parent
    natives = [
        found
        for folder in (package / "node_modules", package.parent)
        for found in sorted(folder.glob(_NATIVE))
    ]
    return next((str(found) for found in natives if os.access(found, os.X_OK)), "")


def judge_server(status: int, told: object, data: bytes) -> Failure | None:
    """Say why a server that answered its health check like this cannot be used; None if it can."""
    version = told.get("version") if isinstance(told, dict) else None
    if status == 200 and isinstance(version, str):
        if version.startswith(("1.", "0.0.0")):
            return None
        return Failure("bad_request", VERSION_2.format(version=version, install=INSTALL))
    if data.lstrip()[:15].lower().startswith((b"<!doctype", b"<html")):
        return Failure("bad_request", A_PAGE.format(install=INSTALL))
    return Failure("bad_request", NO_SERVER.format(status=status, install=INSTALL))


def look_for(config: OpenCodeConfig, path: str | None) -> EngineStatus:
    try:
        program = find_program(config.command, path)
    except EngineError:
        return missing_program("opencode", config.command, INSTALL)
    status = read_status(program, INSTALL)
    if status.available and not status.version.startswith("1."):
        problem = VERSION_2.format(version=status.version, install=INSTALL)
        return EngineStatus(False, version=status.version, problem=problem, fix=INSTALL)
    return status
