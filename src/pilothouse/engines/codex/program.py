"""Finds the program itself, and its version.

npm installs a script that starts the real program as a child. Killing that script would leave the child running, so the
real program is started instead.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from pilothouse.core.engine import EngineStatus, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.program_status import missing_program, older, read_status
from pilothouse.processes import Launcher, ProcessError

INSTALL = "npm install -g @openai/codex"
NOT_FOUND = "Codex was not found where the gateway runs. Install it there: {install}; or name its file in engines.codex.command."
TOO_OLD = "This Codex is too old: it has no app-server. Update it: {install}"
TESTED = "0.166.0"
OLDEST = "0.125.0"
"""Earlier ones know no `app-server --listen unix://PATH`."""
NO_SOCKET = "Codex {version} is too old: Pilothouse needs {oldest} or newer, whose app-server listens on a Unix socket."
SANDBOX_WITHIN_S = 20.0
_NATIVE = "codex-*/vendor/*/bin/codex"


def find_program(command: str, path: str | None) -> str:
    """Return the path of the real program. Raises `EngineError` if there is none."""
    found = shutil.which(os.path.expanduser(command), path=path)
    if found is None:
        raise EngineError(Failure("bad_request", NOT_FOUND.format(install=INSTALL)))
    return _native(Path(found)) or found


def _native(program: Path) -> str:
    """Return the real program behind npm's script; empty if `program` is none."""
    real = program.resolve()
    if real.suffix != ".js":
        return ""
    package = real.parent.parent
    scopes = (package / "node_modules" / "@openai", package.parent)
    natives = [native for scope in scopes for native in sorted(scope.glob(_NATIVE))]
    return next((str(native) for native in natives if os.access(native, os.X_OK)), "")


def explain_start(failure: Failure) -> Failure:
    """Explain an app-server that did not start. A program without one takes the word for a prompt, and wants a terminal."""
    if "stdin is not a terminal" not in failure.detail:
        return failure
    return Failure("bad_request", TOO_OLD.format(install=INSTALL), detail=failure.detail)


async def try_sandbox(program: str, environment: Mapping[str, str]) -> str:
    """Run a command that does nothing in Codex's sandbox; return why that failed, or nothing.

    Codex refuses a `CODEX_HOME` below the temporary folder, so the trial has a temporary folder of its own.
    """
    with TemporaryDirectory() as home, TemporaryDirectory() as temporary:
        argv = [program, "sandbox", "--", "true"]
        own = {**environment, "CODEX_HOME": home, "TMPDIR": temporary}
        try:
            async with Launcher().open(ProcessStart("codex sandbox", argv, home, own)) as process:
                process.close_input()
                with anyio.fail_after(SANDBOX_WITHIN_S):
                    code = await process.wait()
                told = process.stderr_tail().strip().splitlines()
        except (ProcessError, TimeoutError) as error:
            return str(error) or f"it did not end within {SANDBOX_WITHIN_S:g} s"
    return (told[-1] if told else f"exit code {code}") if code else ""


def look_for(config: CodexConfig, path: str | None) -> EngineStatus:
    try:
        program = find_program(config.command, path)
    except EngineError:
        return missing_program("codex", config.command, INSTALL)
    status = read_status(program, INSTALL)
    if not older(status.version, OLDEST):
        return status
    problem = NO_SOCKET.format(version=status.version, oldest=OLDEST)
    return EngineStatus(False, status.version, problem, INSTALL)
