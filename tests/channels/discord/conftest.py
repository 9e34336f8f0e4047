"""A Discord server for each test: a request that it cannot serve fails the test."""

from collections.abc import AsyncIterator

import pytest
from tests.channels.discord.inside import Inside
from tests.channels.discord.server.running import Server, open_server
from tests.engines.claude.binary import try_install


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if any("/discord/test_real_" in item.nodeid for item in items):
        try_install()  # before the first test begins, so that no test's time pays for it


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with open_server() as server:
        yield server
        assert server.complaints == []


@pytest.fixture
def inside() -> Inside:
    """Another one, without a socket."""
    return Inside()
