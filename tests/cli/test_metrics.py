"""`pilothouse metrics`: Prometheus' text format, from the store, for this machine alone."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from tests.cli.conftest import House
from tests.cli.test_sqlite import fill

from pilothouse.cli.metrics import Figures, parse_address, render
from pilothouse.cli.status import Queued, Status
from pilothouse.core.budget import Spent
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId, EngineId, Epoch
from pilothouse.core.store import Node, NodeInfo
from pilothouse.runtime.channel_status import HealthNote
from pilothouse.stores.sqlite import STORE, SqliteConfig

SAMPLE = re.compile(r'^pilothouse_\w+(\{\w+="(\\.|[^"\\])*"\})? -?\d+(\.\d+)?(e[+-]\d+)?$')


def samples(text: str) -> dict[str, float]:
    """Every line is a comment or a sample, and each metric is described before its first sample."""
    found: dict[str, float] = {}
    described: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            described.add(line.split()[2])
        elif not line.startswith("# HELP "):
            assert SAMPLE.match(line), line
            name, value = line.rsplit(" ", 1)
            assert name.partition("{")[0] in described
            found[name.removeprefix("pilothouse_")] = float(value)
    return found


def test_each_figure_is_counted() -> None:
    node = Node(Epoch(1), NodeInfo("up", "elsewhere", 7, "1"), ("engines", "channels"), 100.0, 1, False)
    notes = {"telegram": HealthNote(9.0, 5.0), "discord": HealthNote(9.0, 4.0, "It is refused.")}
    status = Status([node], [], [Queued("telegram:7", 2, 1), Queued("telegram:8", 1, 0)], [], [], notes)
    engine, place = EngineId('odd "one"\\'), ConversationId("telegram:7")
    spent = [
        Spent("2026-11-16", place, "/w", engine, "message", turns=3, cost_usd=0.5),
        Spent("2026-11-17", place, "/w", engine, "message", turns=1, cost_usd=0.25),
    ]
    found = samples(render(Figures(status, spent, 12), ["telegram", "discord", "web"], 10.0, 4096))
    assert (found["up"], found["asks_open"], found["audit_rows_total"], found["store_bytes"]) == (
        1,
        0,
        12,
        4096,
    )
    assert found['channel_connected{channel="telegram"}'] == 1
    assert found['channel_connected{channel="discord"}'] == found['channel_connected{channel="web"}'] == 0
    assert found['channel_heard_timestamp_seconds{channel="telegram"}'] == 5
    assert (found['messages_unfinished{queue="inbox"}'], found['messages_unfinished{queue="outbox"}']) == (
        3,
        1,
    )
    assert found['turns_total{engine="odd \\"one\\"\\\\"}'] == 4
    assert found['cost_dollars_total{engine="odd \\"one\\"\\\\"}'] == 0.75


def test_they_are_printed_and_served(house: House) -> None:
    async def make() -> None:
        async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as opened:
            await opened.write(fill)

    assert samples(house.run("metrics").stdout)["up"] == 0, "without a store too"
    asyncio.run(make())
    printed = samples(house.run("metrics").stdout)
    assert printed['messages_unfinished{queue="inbox"}'] == 1
    command = [sys.executable, "-m", "pilothouse", "metrics", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(
        command, env=house.environ(), cwd=house.home, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            with urllib.request.urlopen(address, timeout=100) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                assert samples(answer.read().decode()) == printed
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(address.replace("metrics", "secrets"), timeout=100)
        finally:
            process.terminate()


@pytest.mark.parametrize(
    "text", ["0.0.0.0:9464", "192.168.1.5:9464", "9464", "example.org:80", "127.0.0.1:x", ":80"]
)
def test_nobody_else_may_read_them(text: str) -> None:
    with pytest.raises(ConfigError, match="this machine alone"):
        parse_address(text)
    assert parse_address("localhost:9464") == parse_address("127.0.0.1:9464") == ("127.0.0.1", 9464)
