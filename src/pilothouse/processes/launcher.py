"""Starts every process that runs for an agent, so that a jail can be put around all of them in one place.

Engines start processes in no other way; tests/engines/test_shared.py checks it.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext

from msgspec.structs import replace

from pilothouse.core.engine import Jail, ProcessStart
from pilothouse.processes.git import safe_git
from pilothouse.processes.process import Process, ProcessLimits, open_process


class Launcher:
    def __init__(self, jail: Jail = nullcontext) -> None:
        self._jail = jail

    @asynccontextmanager
    async def open(
        self, start: ProcessStart, limits: ProcessLimits | None = None, *, before: Sequence[str] = ()
    ) -> AsyncGenerator[Process, None]:
        """Start the process as the jail wants it; on leaving, stop it with all its descendants. Raises `SpawnFailed`.

        `before` are words of a program of ours that starts it, outside of the jail.
        """
        safe = replace(start, environment=safe_git(start.environment, trusted=start.trusted))
        async with (
            self._jail(safe) as jailed,
            open_process(
                [*before, *jailed.argv], cwd=jailed.cwd, env=jailed.environment, limits=limits
            ) as process,
        ):
            yield process


def read_version(program: str, within_s: float) -> str:
    """Return what `program --version` prints, or nothing if it fails. Blocks, and needs no jail: no agent runs yet.

    Raises `OSError` where it does not run, and `TimeoutError` where it does not end in time.
    """
    argv = [program, "--version"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=within_s, check=False)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(str(error)) from error
    return "" if done.returncode else done.stdout


def read_output(start: ProcessStart, within_s: float) -> bytes:
    """Return what a program prints, or nothing if it does not run or end in time. Blocks, and needs no jail: no agent runs."""
    try:
        done = subprocess.run(
            start.argv,
            cwd=start.cwd,
            env=start.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=within_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return b""
    return done.stdout or done.stderr
