"""Asks OpenCode for its logins, for `pilothouse engines` and `doctor`.

The program itself is asked, in the environment that a turn has: no credential is read here. A provider of the user's own
settings counts as a login too. OpenCode also answers without any, by free models of its makers; those count only if a
person named one of them.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pilothouse.core.engine import EngineStatus, ProcessStart
from pilothouse.engines.opencode.config import OpenCodeConfig, resolve
from pilothouse.engines.opencode.launch import QUIET, passed_names, user_files
from pilothouse.engines.opencode.program import find_program
from pilothouse.processes import allowed_environment
from pilothouse.processes.launcher import read_output

WITHIN_S = 30.0
LOG_IN = "opencode auth login"
NO_LOGIN = "OpenCode has no login and no key, so only free models of its makers would answer."
FREE = "opencode/"
_PROVIDER = re.compile(r'"provider"\s*:\s*\{\s*"')
_LOGIN = re.compile(r"^●\s+(\S.*?)\s*\x1b\[", re.MULTILINE)
_COUNT = re.compile(r"\b\d+ credentials?\b")


def check_login(config: OpenCodeConfig, environ: Mapping[str, str] | None = None) -> EngineStatus:
    """Return whether turns have a login; the `version` names it."""
    source = os.environ if environ is None else environ
    config = resolve(config, source)
    if any(_names_provider(file) for file in user_files(source)):
        return EngineStatus(True, version="own model provider")
    printed = _list_logins(config, source)
    if logins := dict.fromkeys(_LOGIN.findall(printed)):
        return EngineStatus(True, version=f"logged in ({', '.join(logins)})")
    if (config.model or "").startswith(FREE):
        return EngineStatus(True, version="a model of OpenCode's makers")
    if not _COUNT.search(printed):
        return EngineStatus(True, version="OpenCode did not say whether it is logged in")
    return EngineStatus(False, problem=NO_LOGIN, fix=LOG_IN)


def _names_provider(settings: Path) -> bool:
    try:
        return _PROVIDER.search(settings.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False


def _list_logins(config: OpenCodeConfig, source: Mapping[str, str]) -> str:
    """Return what `opencode auth list` prints: each login and each variable with a key that it found."""
    environment = allowed_environment(source, passed_names(config, source), QUIET)
    with tempfile.TemporaryDirectory(prefix="pilothouse-doctor-") as folder:
        argv = [find_program(config.command, source.get("PATH")), "auth", "list"]
        start = ProcessStart("opencode auth list", argv, folder, environment)
        return read_output(start, WITHIN_S).decode("utf-8", "replace")
