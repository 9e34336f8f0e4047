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
from bench.measuring.machine import describe
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row, render
from tests.channels.discord.crowd import Crowd, stream
from tests.channels.discord.server.running import open_server

CHANNELS, TURNS = 20, 2
BOUND_S = 1.5
WAYS = {"one after the other": 0.1, "in one moment": 0.0}


async def measure(apart_s: float) -> Crowd:
    with TemporaryDirectory(prefix="pilothouse-discord-") as folder:
        async with open_server() as server:
            return await stream(
                server, Path(folder), channels=CHANNELS, turns=TURNS, words=60, apart_s=apart_s
            )


def rows(way: str, crowd: Crowd) -> list[Row]:
    lags = crowd.lags or [float("inf")]
    told = f"p50 {median(lags):.2f} s, slowest {max(lags):.2f} s of {len(crowd.lags)}"
    asked = f"of {crowd.counted} requests, {crowd.edits} of them progress"
    return [
        Row(f"begun {way}: end of a turn → its answer, p95", quantile(lags, 0.95), BOUND_S, "s", told),
        Row("answers that never came", crowd.missing, 0, "", f"of {CHANNELS * TURNS}"),
        Row("refusals for haste (429)", crowd.refused, 0, "", asked),
    ]


def main() -> int:
    found = [row for way, apart_s in WAYS.items() for row in rows(way, anyio.run(measure, apart_s))]
    print(render(found, describe(), "bench/discord crowd"))
    return 0 if all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
