"""A server under a keeper: it ends with an idle gateway, works on for its lease after a busy one, and can be adopted."""

from __future__ import annotations

import secrets
import signal
import sys
from pathlib import Path

import anyio
import pytest

from pilothouse.core.engine import ProcessStart
from pilothouse.processes import Launcher, Marker, ProcessLimits, sweep_leftovers
from pilothouse.processes.kept import Kept, adopt_kept, find_kept, open_kept
from pilothouse.processes.procfs import carries, list_pids
from pilothouse.processes.tree import KEPT_MARKER

pytestmark = pytest.mark.anyio

WITHIN_S = 100.0
NODE = "TEST_NODE"
SERVER = "sleep 600 & setsid sleep 601 & touch up; wait"
"""Leaves a child in a session of its own."""

GATEWAY = """
import sys, anyio
from pathlib import Path
from pilothouse.core.engine import ProcessStart
from pilothouse.processes import Launcher, ProcessLimits
from pilothouse.processes.kept import open_kept

async def main(folder, lease_s, busy, node, script):
    start = ProcessStart("server", ["sh", "-c", script], folder, {"PATH": "/usr/bin:/bin", "TEST_NODE": node})
    async with open_kept(Launcher(), start, Path(folder), float(lease_s), ProcessLimits()) as server:
        server.mark_busy(busy=busy == "busy")
        while not Path(folder, "up").exists():
            await anyio.sleep(0.02)
        print(flush=True)
        await anyio.sleep_forever()

anyio.run(main, *sys.argv[1:])
"""


async def kill_gateway(folder: Path, lease_s: float, busy: str, node: str = "none") -> Kept:
    """Start a server in a gateway of its own, and kill that."""
    argv = [sys.executable, "-c", GATEWAY, str(folder), str(lease_s), busy, node, SERVER]
    async with await anyio.open_process(argv, stderr=None) as gateway:
        assert gateway.stdout is not None
        with anyio.fail_after(WITHIN_S):
            assert await gateway.stdout.receive() == b"\n"
        gateway.send_signal(signal.SIGKILL)
        await gateway.wait()
    kept = find_kept(folder)
    assert kept is not None
    return kept


def running(kept: Kept) -> list[int]:
    marker = Marker(KEPT_MARKER, kept.mark)
    return [pid for pid in list_pids() if carries(pid, marker)]


async def until_ended(kept: Kept) -> None:
    with anyio.fail_after(WITHIN_S):
        while running(kept):
            await anyio.sleep(0.05)


async def test_an_idle_server_ends_with_its_killed_gateway(tmp_path: Path) -> None:
    await until_ended(await kill_gateway(tmp_path, 600, "idle"))


async def test_nothing_of_a_busy_server_is_left_after_its_lease(tmp_path: Path) -> None:
    await until_ended(await kill_gateway(tmp_path, 0.5, "busy"))


async def test_a_busy_server_is_spared_by_the_sweep_adopted_and_ended_by_the_next_gateway(
    tmp_path: Path,
) -> None:
    node = secrets.token_hex(8)
    kept = await kill_gateway(tmp_path, 600, "busy", node)
    assert await sweep_leftovers(Marker(NODE, node)) == ()
    assert len(running(kept)) == 4
    async with adopt_kept(tmp_path, kept) as server:
        assert server.alive
        assert server.pid == kept.pid
    assert running(kept) == []
    assert find_kept(tmp_path) is None


async def test_a_keeper_ends_with_its_server_and_tells_its_exit_code_and_its_last_words(
    tmp_path: Path,
) -> None:
    start = ProcessStart(
        "server", ["sh", "-c", "echo sorry >&2; exit 3"], str(tmp_path), {"PATH": "/usr/bin:/bin"}
    )
    async with open_kept(Launcher(), start, tmp_path, 600, ProcessLimits()) as server:
        with anyio.fail_after(WITHIN_S):
            while server.alive:
                await anyio.sleep(0.02)
        await server.stop()
        assert server.exit_code == 3
        assert server.stderr_tail() == "sorry\n"
