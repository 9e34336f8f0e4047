"""`bench/telegram crowd`: 30 chats that stream at once, against a server that enforces Telegram's published limits.

20 people alone with the bot and 10 groups, two turns in each, one after the other, which stream for some six seconds. The server,
the gateway and the engine share one process, so what they cost each other is in the figure. Missing a bound is exit code 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.crowd_rows import crowd_rows
from bench.measuring.machine import describe
from bench.measuring.table import render
from tests.channels.crowding import Crowd, Plan
from tests.channels.telegram.crowd import stream
from tests.channels.telegram.server.running import open_server

PRIVATE, GROUPS, TURNS = 20, 10, 2


async def measure(folder: Path) -> Crowd:
    async with open_server() as server:
        plan = Plan(turns=TURNS, words=60, apart_s=0.1)
        return await stream(server, folder, plan, private=PRIVATE, groups=GROUPS)


def main() -> int:
    with TemporaryDirectory(prefix="pilothouse-telegram-") as folder:
        crowd = anyio.run(measure, Path(folder))
    rows = crowd_rows(crowd, "end of a turn → its answer, p95", of=(PRIVATE + GROUPS) * TURNS)
    print(render(rows, describe(), "bench/telegram crowd"))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
