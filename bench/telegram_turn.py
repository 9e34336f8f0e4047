"""`bench/telegram turn`: what a turn costs on Telegram, with default settings and an engine that takes no time.

A plain message in a private chat, until its answer stands there. Then silent turns of three seconds, which show
progress, against the same without progress: from the end of a turn until its answer. The server, the gateway and the
engine share one process. Missing a bound is exit code 1.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from bench.measuring.machine import describe
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row, render
from tests.channels.crowding import VIEWS, Plan
from tests.channels.telegram.crowd import stream
from tests.channels.telegram.gateway_house import open_gateway
from tests.channels.telegram.server.running import Server, open_server
from tests.runtime.puppet import Strings

from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.core.secret import Secret

CHATS, ROUNDS, APART_S = 10, 6, 1.2
SILENT = Plan(turns=2, words=1, every_s=3.0, apart_s=0.15)
NO_VIEWS: dict[str, Any] = {"first_view_s": 3600.0}


async def measure(folder: Path) -> list[Row]:
    async with open_server() as server:
        took = await _plain_turns(server, folder / "plain")
    lags: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2):
        for shown in (True, False):
            async with open_server() as server:
                here = folder / f"{number}-{shown}"
                views = VIEWS if shown else NO_VIEWS
                crowd = await stream(server, here, SILENT, private=CHATS, groups=0, views=views)
                lags[shown] += crowd.lags
    with_views, without = quantile(lags[True], 0.95), quantile(lags[False], 0.95)
    detail = f"{with_views * 1e3:.0f} ms against {without * 1e3:.0f} ms, {len(lags[True])} and {len(lags[False])} turns"
    return [
        Row(
            "warm turn: message → answer, p50",
            median(took) * 1e3,
            35,
            "ms",
            f"p95 {quantile(took, 0.95) * 1e3:.0f} ms, {len(took)} turns",
        ),
        Row(
            "end of a silent turn → its answer, p95, above the same without progress",
            (with_views - without) * 1e3,
            150,
            "ms",
            detail,
        ),
    ]


async def _plain_turns(server: Server, folder: Path) -> list[float]:
    """One turn after the other; in each chat not faster than Telegram lets a bot speak there."""
    people = [server.person(f"Person {number}") for number in range(CHATS)]

    async def answer(strings: Strings) -> None:
        await strings.start()
        await strings.end(f"answer to {strings.prompt.text.split()[-1]}")

    took: list[float] = []
    config = TelegramConfig(token=Secret(server.token), api_base=server.url)
    async with open_gateway(server, folder, dict.fromkeys(people, "owner"), answer, config=config, **VIEWS):
        for number in range(ROUNDS):
            began = time.monotonic()
            for person in people:
                said = f"{person.chat.id}-{number}"
                started = time.perf_counter()
                person.say(f"question {said}")
                await server.world.until(
                    lambda chat=person.chat.id, words=f"answer to {said}": any(
                        words in post.text for post in server.world.shown(chat)
                    )
                )
                if number:  # the first turn of a chat warms it up
                    took.append(time.perf_counter() - started)
            await anyio.sleep(max(0.0, APART_S - (time.monotonic() - began)))
    return took


def main() -> int:
    with TemporaryDirectory(prefix="pilothouse-telegram-") as folder:
        rows = anyio.run(measure, Path(folder))
    print(render(rows, describe(), "bench/telegram turn"))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
