"""Starts every process that runs for an agent, so that a jail can be put around all of them in one place.

Engines start processes in no other way; tests/engines/test_shared.py checks it.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext

from pilothouse.core.engine import Jail, ProcessStart
from pilothouse.processes.process import Process, ProcessLimits, open_process


class Launcher:
    def __init__(self, jail: Jail = nullcontext) -> None:
        self._jail = jail

    @asynccontextmanager
    async def open(
        self, start: ProcessStart, limits: ProcessLimits | None = None
    ) -> AsyncGenerator[Process, None]:
        """Start the process as the jail wants it; on leaving, stop it with all its descendants. Raises `SpawnFailed`."""
        async with (
            self._jail(start) as jailed,
            open_process(jailed.argv, cwd=jailed.cwd, env=jailed.environment, limits=limits) as process,
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
