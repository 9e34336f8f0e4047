"""A client that stops reading: nothing is lost, and the server's memory does not grow with what waits for it."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import Client, write_home
from tests.channels.rpc.rules import rule

MB = 1024 * 1024
OUTPUT = 9_000
TOOLS = 2_000
"""Together 18 MB of output: far more than a pipe, and than the page of rows that a follower holds."""
GROWTH = 9 * MB
"""Between two moments at which the client has not read: a tenth is stored, and all of it is. Measured: 0.1 to 6.4 MB, by
whether the page was read before the first of them."""


def stored(home: Path) -> int:
    with closing(sqlite3.connect(home / "pilothouse.db")) as store:
        return store.execute("SELECT count(*) FROM events").fetchone()[0]


def memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


@rule("R17")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process in /proc")
def test_a_client_that_stops_reading_loses_nothing_and_costs_no_memory(tmp_path: Path) -> None:
    """The run is written by another process, so that only the client's own server is measured."""
    tool = f'{{ tool = "read", title = "t", output = "{"x" * OUTPUT}" }}'
    steps = ", ".join([tool] * TOOLS)
    write_home(
        tmp_path,
        f'[[turn]]\nmatch = "many"\nsteps = [ {steps}, {{ say = "done" }} ]\n[[turn]]\nsteps = [ {{ say = "hi" }} ]\n',
    )
    with Client(tmp_path) as writer:
        writer.initialize()
        first = writer.start("hello")
        writer.end_of(first["run_id"])
        with Client(tmp_path) as reader:
            reader.initialize()
            reader.call("session.history", session_id=first["session_id"])
            watch(tmp_path, writer, reader, first["session_id"])


def watch(home: Path, writer: Client, reader: Client, session: str) -> None:
    run = writer.start("many", session_id=session)
    until(lambda: stored(home) > TOOLS // 10)
    before = memory(reader.program.pid)
    assert writer.end_of(run["run_id"]) == "completed"
    until(lambda: stored(home) > 2 * TOOLS)
    assert memory(reader.program.pid) - before < GROWTH
    assert reader.end_of(run["run_id"]) == "completed"
    assert reader.events(run["run_id"])[1:] == writer.events(run["run_id"])
    assert [seq for seq, _ in writer.events(run["run_id"])] == list(range(4 * TOOLS + 1))
    again = writer.start("many", session_id=session)
    assert writer.end_of(again["run_id"]) == "completed"
    os.kill(reader.program.pid, signal.SIGTERM)
    assert reader.program.wait(60) == 0, "it waits for no reader"


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.02)
