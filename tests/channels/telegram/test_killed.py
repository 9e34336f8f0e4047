"""`kill -9` of the gateway while five chats wait: each is answered, nothing is lost, and a double says that it is one."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server

from pilothouse.core.message import AGAIN_MARK

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60


@asynccontextmanager
async def gateway(server: Server, home: Path, people: list[Person]) -> AsyncIterator[None]:
    """Killed when it is left."""
    command = [sys.executable, "-m", "tests.channels.telegram.killed", str(home), server.url, server.token]
    command += [str(person.id) for person in people]
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    async with await anyio.open_process(
        command, env=env, cwd=ROOT, stdin=None, stdout=None, stderr=None
    ) as process:
        try:
            yield
        finally:
            process.kill()


def answers(server: Server, person: Person) -> list[str]:
    return [text for text in server.world.texts(person.id) if f"you said: from {person.id}" in text]


@pytest.mark.parametrize("calls", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("lost", [False, True])
async def test_a_kill_loses_nothing_and_doubles_nothing_unmarked(
    server: Server, tmp_path: Path, calls: int, lost: bool
) -> None:
    """Killed when the server has seen so many calls; and, once more, with an answer of ours under way."""
    people = [server.person(f"P{n}") for n in range(5)]
    for person in people:
        person.say(f"from {person.id}")
    if lost:
        server.faults.hold("sendMessage", times=1)
    with anyio.fail_after(PATIENCE_S):
        async with gateway(server, tmp_path, people):
            await server.world.until(lambda: len(server.calls) >= calls)
        server.faults.clear()
        async with gateway(server, tmp_path, people):
            await server.world.until(lambda: all(answers(server, person) for person in people))
            await server.world.until(lambda: not server.world.pending)
    for person in people:
        unmarked = [text for text in answers(server, person) if AGAIN_MARK not in text]
        assert len(unmarked) <= 1
