"""A process that runs for an agent is started as its jail says."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from pilothouse.core.engine import ProcessStart
from pilothouse.processes import Launcher, SpawnFailed

pytestmark = pytest.mark.anyio

PRINT = "import os; print(os.environ.get('INSIDE', 'free'), os.getcwd())"


def start(folder: Path) -> ProcessStart:
    return ProcessStart("test", [sys.executable, "-c", PRINT], str(folder), {"PATH": os.environ["PATH"]})


async def first_line(launcher: Launcher, start: ProcessStart) -> str:
    async with launcher.open(start) as process:
        async for line in process.lines():
            return line.data.decode()
    return ""


async def test_without_a_jail_a_process_starts_as_it_was_meant(tmp_path: Path) -> None:
    assert await first_line(Launcher(), start(tmp_path)) == f"free {tmp_path}"


async def test_a_jail_changes_the_start_and_is_left_after_the_process(tmp_path: Path) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def jail(start: ProcessStart) -> AsyncIterator[ProcessStart]:
        seen.append(f"open {start.name}")
        yield msgspec.structs.replace(start, environment={**start.environment, "INSIDE": "jailed"})
        seen.append("removed")

    assert await first_line(Launcher(jail), start(tmp_path)) == f"jailed {tmp_path}"
    assert seen == ["open test", "removed"]


async def test_a7_git_is_made_safe_in_every_process(tmp_path: Path) -> None:
    told = "import os; print({k: v for k, v in os.environ.items() if k.startswith('GIT_')})"
    begun = msgspec.structs.replace(start(tmp_path), argv=[sys.executable, "-c", told])
    assert "core.hooksPath" in await first_line(Launcher(), begun)
    trusted = await first_line(Launcher(), msgspec.structs.replace(begun, trusted=True))
    assert "core.fsmonitor" in trusted
    assert "core.hooksPath" not in trusted


async def test_a_jail_is_left_when_the_program_does_not_start(tmp_path: Path) -> None:
    left: list[bool] = []

    @asynccontextmanager
    async def jail(start: ProcessStart) -> AsyncIterator[ProcessStart]:
        try:
            yield msgspec.structs.replace(start, argv=["/no/such/jail", *start.argv])
        finally:
            left.append(True)

    with pytest.raises(SpawnFailed):
        await first_line(Launcher(jail), start(tmp_path))
    assert left == [True]
