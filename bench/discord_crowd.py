"""`bench/discord crowd`: 20 channels that stream at once, against a server that enforces Discord's published limits.

Two turns in each, one after the other, which stream for some six seconds; first the channels begin a tenth of a second
apart, then all in the same moment. The server, the gateway and the engine share one process, so what they cost each
other is in the figure. Missing a bound is exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.crowd_rows import crowd_rows
from bench.measuring.machine import describe
from bench.measuring.table import Row, render
from tests.channels.crowding import Crowd, Plan
from tests.channels.discord.crowd import stream
from tests.channels.discord.server.running import open_server

CHANNELS, TURNS = 20, 2
WAYS = {"one after the other": 0.1, "in one moment": 0.0}


async def measure(apart_s: float) -> Crowd:
    with TemporaryDirectory(prefix="pilothouse-discord-") as folder:
        async with open_server() as server:
            plan = Plan(turns=TURNS, words=60, apart_s=apart_s)
            return await stream(server, Path(folder), plan, channels=CHANNELS)


def rows(way: str, crowd: Crowd) -> list[Row]:
    return crowd_rows(crowd, f"begun {way}: end of a turn → its answer, p95", of=CHANNELS * TURNS)


def main() -> int:
    found = [row for way, apart_s in WAYS.items() for row in rows(way, anyio.run(measure, apart_s))]
    print(render(found, describe(), "bench/discord crowd"))
    return 0 if all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
