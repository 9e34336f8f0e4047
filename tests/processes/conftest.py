"""Real child processes: small programs written for each test."""

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.processes.programs import IsAlive, Launch, Program

from pilothouse.processes import allowed_environment, open_process
from pilothouse.processes.procfs import read_process


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Write a Python program; give the command that runs it."""
    names = (f"program{number}.py" for number in range(100))

    def write(source: str) -> list[str]:
        path = tmp_path / next(names)
        path.write_text(source)
        return [sys.executable, "-S", "-u", str(path)]

    return write


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    return partial(open_process, cwd=tmp_path, env=allowed_environment(os.environ))


@pytest.fixture
def is_alive() -> IsAlive:
    def look(pid: int) -> bool:
        info = read_process(pid)
        return info is not None and info.alive

    return look
