"""`bench/telegram crowd`: 30 chats that stream at once, against a server that enforces Telegram's published limits.

20 people alone with the bot and 10 groups, two turns in each, one after the other, which stream for some six seconds. The server,
the gateway and the engine share one process, so what they cost each other is in the figure. Missing a bound is exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.measuring.machine import describe
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row, render
from tests.channels.telegram.crowd import Crowd, stream
from tests.channels.telegram.server.running import open_server

PRIVATE, GROUPS, TURNS = 20, 10, 2
BOUND_S = 1.5


async def measure(folder: Path) -> Crowd:
    async with open_server() as server:
        return await stream(
            server, folder, private=PRIVATE, groups=GROUPS, turns=TURNS, words=60, apart_s=0.1
        )


def main() -> int:
    with TemporaryDirectory(prefix="pilothouse-telegram-") as folder:
        crowd = anyio.run(measure, Path(folder))
    lags = crowd.lags or [float("inf")]
    told = f"p50 {median(lags):.2f} s, slowest {max(lags):.2f} s of {len(crowd.lags)}"
    rows = [
        Row("end of a turn → its answer, p95", quantile(lags, 0.95), BOUND_S, "s", told),
        Row("answers that never came", crowd.missing, 0, "", f"of {(PRIVATE + GROUPS) * TURNS}"),
        Row("refusals for haste (429)", crowd.refused, 0, "", f"of {crowd.counted} requests"),
    ]
    print(render(rows, describe(), "bench/telegram crowd"))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
