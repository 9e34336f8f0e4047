"""The program that is killed: `python -m bench.crashing.scenario HOME [--kill-at N] [--verdict allow|deny]`.

A gateway and the people who talk to it, in one process. Run again on the same HOME it goes on where it was killed,
until everything has settled. What people saw is in `seen.jsonl`, what was acknowledged to them in `people.jsonl`,
what the engine really did in `world.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from bench.crashing.house import Home, PointedLog, make_channel, make_ports, patient, with_tools
from bench.crashing.people import People
from bench.crashing.points import Points

from pilothouse.bootstrap.machine import sweep_leftovers, this_node
from pilothouse.core.ask import Verdict
from pilothouse.runtime.gateway import Gateway
from pilothouse.stores.sqlite import STORE

GIVE_UP_S = 20.0


async def play(home: Home, kill_at: int | None, verdict: Verdict, since: float) -> None:
    points, times = Points(kill_at, home.last_words), dict[str, float]()
    mark, log = partial(_mark, times, since), PointedLog(home.log, points)

    async def sweep() -> None:
        await sweep_leftovers(str(home.database), log)
        mark("swept")

    config = STORE.config(path=str(home.database))
    async with STORE.open(config, on_commit=partial(points.here, "commit")) as store:
        channel = make_channel(partial(_show, home, points))
        ports = make_ports(home, store, channel, log, sweep=sweep)
        gateway = Gateway(ports, this_node("crash sweep"), on_ready=partial(mark, "ready"))
        acked = partial(points.here, "ack")
        people = People(
            channel, store, ports.clock, home.people, home.seen, acked, verdict, tools=with_tools()
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.run)
            with anyio.fail_after(patient(GIVE_UP_S)):
                await people.play()
            gateway.stop()
    told = {"points": points.passed, "approvals": log.approvals, "times": times}
    home.report.write_text(json.dumps(told))


def _mark(times: dict[str, float], since: float, what: str) -> None:
    times[what] = time.monotonic() - since


def _show(home: Home, points: Points, effect: dict[str, Any]) -> None:
    points.here("before send")
    home.seen.add(effect)
    points.here("after send")


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--kill-at", type=int)
    parser.add_argument("--verdict", choices=("allow", "deny"), default="allow")
    parser.add_argument("--since", type=float, default=time.monotonic(), help="when this process was started")
    given = parser.parse_args(words)
    anyio.run(play, Home(given.home), given.kill_at, given.verdict, given.since)


if __name__ == "__main__":
    main(sys.argv[1:])
