"""A Bot API server per test, its judge once per run, and a client of ours beside it."""

import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from tests.channels.telegram.server.judge_aiogram import START_S, open_judge, start_judge
from tests.channels.telegram.server.running import Server, open_server
from tests.engines.claude.binary import try_install

from pilothouse.channels.telegram.client import BotClient, open_client
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.core.secret import Secret

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for aiogram, which a busy machine imports slowly."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(180))
    if any("/telegram/test_real_" in item.nodeid for item in items):
        try_install()  # before the first test begins, so that no test's time pays for it


@pytest.fixture(scope="session")
def judge_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Path]:
    """Where aiogram's process listens; it stays for as long as somebody of this run is connected."""
    base = tmp_path_factory.getbasetemp()
    folder = base if worker_id == "master" else base.parent
    path = folder / "aiogram.sock"
    deadline = time.monotonic() + START_S
    with socket.socket(socket.AF_UNIX) as visitor:
        while True:
            try:
                visitor.connect(str(path))
                break
            except (FileNotFoundError, ConnectionRefusedError):
                assert time.monotonic() < deadline, path.with_suffix(".log").read_text()
                start_judge(path)
                time.sleep(0.05)
        yield folder


@pytest.fixture
async def server(judge_folder: Path) -> AsyncIterator[Server]:
    """Whatever aiogram would not take, of a request, an answer or an update, fails the test."""
    async with open_judge(judge_folder) as judge, open_server(judge) as server:
        yield server
        assert server.complaints == []


def endpoint(server: Server) -> Endpoint:
    return Endpoint(Secret(server.token), server.url)


def connect(server: Server) -> AbstractAsyncContextManager[BotClient]:
    return open_client(endpoint(server))


@pytest.fixture
async def client(server: Server) -> AsyncIterator[BotClient]:
    async with connect(server) as client:
        yield client
