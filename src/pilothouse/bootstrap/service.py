"""The service that keeps `pilothouse up` running: its command, its environment, and what the operating system offers.

A service file can be read by others, so it never holds a token: those belong into `.env`, which the gateway reads itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from pilothouse.bootstrap.terminal_text import RUN_SCRIPT

KEPT_NAMES = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "PILOTHOUSE_HOME",
    "PILOTHOUSE_CONFIG",
    "PILOTHOUSE_PYTHON",
    "PILOTHOUSE_CACHE_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "CLAUDE_CONFIG_DIR",
)
"""Variables that decide where programs, settings and folders are found. None of them holds a secret."""
COMMAND_S = 30.0


class Ran(Struct, frozen=True):
    """The end of a command: its exit code and everything that it printed."""

    code: int
    text: str


Run = Callable[[Sequence[str]], Ran]


class Service(Struct, frozen=True):
    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    log_file: Path
    """The file for launchd's output. systemd has a journal."""
    stop_s: float
    """Seconds that running turns may take to end before the process is killed."""


class ServiceState(Struct, frozen=True):
    """`text` is a sentence for people; `fix` the command that would help, if something is wrong."""

    installed: bool
    running: bool
    text: str
    fix: str = ""


class ServiceSystem(Protocol):
    """The operating system's way of keeping a program running: systemd or launchd."""

    @property
    def file(self) -> Path: ...

    def render(self, service: Service) -> str: ...

    def install(self, service: Service) -> list[str]:
        """Write the file and start the service. Returns sentences for people; raises `PilothouseError` if it failed."""
        ...

    def uninstall(self) -> None: ...

    def state(self) -> ServiceState: ...

    def log_command(self, lines: int, *, follow: bool) -> list[str]: ...


def run_command(argv: Sequence[str]) -> Ran:
    """Runs a command of the system. One that is missing or hangs is a failure like any other."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Ran(127, str(error))
    return Ran(done.returncode, (done.stdout + done.stderr).strip())


def make_service(environ: Mapping[str, str], log_dir: Path, grace_s: float) -> Service:
    kept = {name: environ[name] for name in KEPT_NAMES if environ.get(name)}
    command = (*find_program(environ), "up")
    return Service(command, kept, Path.home(), log_dir / "service.log", grace_s + 60.0)


def find_program(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the command that started this process, with absolute paths. The script of a checkout finds its environment
    again after an update, whose path changes."""
    if script := environ.get(RUN_SCRIPT):
        return (script,)
    program = shutil.which(sys.argv[0], path=environ.get("PATH")) if sys.argv[0] else None
    if program and Path(program).name == "pilothouse":
        return (os.path.abspath(program),)
    return (sys.executable, "-m", "pilothouse")
