"""Another program that polls with our token, as somebody's forgotten script does."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import anyio
from tests.channels.telegram.conftest import connect
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram.client import BotClient


class Rival:
    """Whatever it is told, it polls again at once, until it is to leave and its last poll has ended."""

    def __init__(self, client: BotClient) -> None:
        self._client = client
        self._leaves = False
        self.left = False

    async def run(self) -> None:
        while not self._leaves:
            await self._client.get_updates(0, timeout_s=20)
        self.left = True

    def leave(self) -> None:
        self._leaves = True


@asynccontextmanager
async def rival(server: Server) -> AsyncIterator[Rival]:
    async with connect(server) as client, anyio.create_task_group() as tasks:
        other = Rival(client)
        tasks.start_soon(other.run)
        yield other
        tasks.cancel_scope.cancel()


def conflicts(logged: Iterable[tuple[str, Mapping[str, object]]]) -> list[object]:
    """Of each poll of ours that the other one ended: the how many-th in a row it was."""
    return [fields["in_a_row"] for _, fields in logged if fields.get("kind") == "Conflict"]
