"""What a killed gateway left is found by its marker, and ended; nobody else is."""

import os
import secrets
import subprocess
import sys

import pytest
from tests.processes.programs import IsAlive, Program

from pilothouse.processes import Marker, sweep_leftovers

pytestmark = pytest.mark.anyio

# A "gateway" that starts a stubborn, marked process in its own session, says its pid, and waits to be killed.
GATEWAY = """
import subprocess, sys, time
stubborn = "import os, signal, time; signal.signal(15, 1); print(os.getpid(), flush=True); time.sleep(600)"
engine = subprocess.Popen([sys.executable, "-S", "-c", stubborn], start_new_session=True)
time.sleep(600)
"""


@pytest.fixture
def marker() -> Marker:
    return Marker("PILOTHOUSE_NODE", secrets.token_hex(8))


def start_a_gateway(argv: list[str], marker: Marker) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, env={**os.environ, marker.name: marker.value}, stdout=subprocess.PIPE)


def start_and_kill_a_gateway(argv: list[str], marker: Marker) -> int:
    with start_a_gateway(argv, marker) as gateway:
        assert gateway.stdout is not None
        engine = int(gateway.stdout.readline())
        gateway.kill()
    return engine


async def test_the_processes_of_a_killed_gateway_are_ended(
    program: Program, marker: Marker, is_alive: IsAlive
) -> None:
    engine = start_and_kill_a_gateway(program(GATEWAY), marker)
    assert is_alive(engine)
    [leftover] = await sweep_leftovers(marker, terminate_s=0.2, kill_s=20)
    assert leftover.id.pid == engine
    assert leftover.ended
    assert "import os, signal" in leftover.command
    assert not is_alive(engine)


async def test_another_marker_is_not_touched(program: Program, marker: Marker, is_alive: IsAlive) -> None:
    engine = start_and_kill_a_gateway(program(GATEWAY), marker)
    assert await sweep_leftovers(Marker(marker.name, marker.value[:-1])) == ()
    assert await sweep_leftovers(Marker(marker.name[1:], marker.value)) == ()
    assert is_alive(engine)
    await sweep_leftovers(marker, terminate_s=0, kill_s=20)


def test_a_gateway_that_carries_the_marker_itself_spares_itself(program: Program, marker: Marker) -> None:
    argv = program(
        "import anyio, os\nfrom pilothouse.processes import Marker, sweep_leftovers\n"
        f"print(anyio.run(sweep_leftovers, Marker({marker.name!r}, {marker.value!r})))"
    )
    argv.remove("-S")
    environment = {**os.environ, marker.name: marker.value, "PYTHONPATH": os.pathsep.join(sys.path)}
    shell = ["/bin/sh", "-c", '"$@"; echo shell lives', "sh", *argv]
    done = subprocess.run(shell, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout == "()\nshell lives\n", done.stderr


async def test_what_living_gateways_started_goes_on(
    program: Program, marker: Marker, is_alive: IsAlive
) -> None:
    orphan = start_and_kill_a_gateway(program(GATEWAY), marker)
    with (
        start_a_gateway(program(GATEWAY), marker) as other,
        start_a_gateway(program(GATEWAY), marker) as ours,
    ):
        started = [int(one.stdout.readline()) for one in (other, ours) if one.stdout is not None]
        try:
            found = await sweep_leftovers(marker, living=frozenset({other.pid}), terminate_s=0.2, kill_s=20)
            assert [leftover.id.pid for leftover in found] == [orphan]
            assert all(map(is_alive, started))
        finally:
            other.kill()
            ours.kill()
    swept = await sweep_leftovers(marker, terminate_s=0.2, kill_s=20)
    assert sorted(leftover.id.pid for leftover in swept) == sorted(started)
