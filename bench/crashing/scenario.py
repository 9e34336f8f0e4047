"""The program that is killed: `python -m bench.crashing.scenario HOME [--kill-at N] [--verdict allow|deny]`.

A gateway on a real SQLite file with a real engine process, and the people who talk to it, in one process. Run again
on the same HOME it goes on where it was killed, until everything has settled. What people saw is in `seen.jsonl`,
what was acknowledged to them in `people.jsonl`, what the engine really did in `world.jsonl`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from bench.crashing.journal import Journal
from bench.crashing.people import People
from bench.crashing.points import Points

from pilothouse.bootstrap import is_alive, sweep_leftovers, this_node
from pilothouse.channels.memory import MEMORY, PERSON, MemoryChannel
from pilothouse.core.ask import Verdict
from pilothouse.core.engine import Engine, EngineHost
from pilothouse.core.ids import EngineId
from pilothouse.core.people import People as Roles
from pilothouse.core.store import Store
from pilothouse.engines.script import ENGINE
from pilothouse.engines.script.config import ScriptConfig
from pilothouse.runtime.blobs import StoreBlobs
from pilothouse.runtime.clock import SystemClock, new_id
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings
from pilothouse.stores.sqlite import STORE

SCRIPT = Path(__file__).with_name("script.toml")
PART_LIMIT = 300
GIVE_UP_S = 20.0


class Home:
    """The files of one run and its restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.database = folder / "pilothouse.db"
        self.seen = Journal(folder / "seen.jsonl")
        self.people = Journal(folder / "people.jsonl")
        self.world = folder / "world.jsonl"
        self.log = folder / "log.jsonl"
        self.last_words = folder / "killed-after"
        self.report = folder / "report.json"


class Log:
    """The gateway's log, and at which points an approval was asked for or given."""

    def __init__(self, file: Path, points: Points) -> None:
        self._file = file
        self._points = points
        self.approvals: list[int] = []

    def __call__(self, event: str, /, **fields: object) -> None:
        if event == "ask.answered" or fields.get("kind") == "approval":
            self.approvals.append(len(self._points.passed))
        line = {"at": time.time(), "pid": os.getpid(), "event": event, **fields}
        with self._file.open("a") as file:
            file.write(json.dumps(line, default=str) + "\n")


async def play(home: Home, kill_at: int | None, verdict: Verdict, since: float) -> None:
    points, times = Points(kill_at, home.last_words), dict[str, float]()
    mark, log = partial(_mark, times, since), Log(home.log, points)
    config = STORE.config(path=str(home.database))
    async with STORE.open(config, on_commit=partial(points.here, "commit")) as store:
        channel = _channel(home, points)
        ports = _ports(home, store, channel, log, mark)
        gateway = Gateway(ports, this_node("crash sweep"), on_ready=partial(mark, "ready"))
        people = People(channel, store, ports.clock, home.people, partial(points.here, "ack"), verdict)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.run)
            with anyio.fail_after(GIVE_UP_S):
                await people.play()
            mark("settled")
            gateway.stop()
    mark("stopped")
    told = {"points": points.passed, "approvals": log.approvals, "times": times}
    home.report.write_text(json.dumps(told))


def _mark(times: dict[str, float], since: float, what: str) -> None:
    times[what] = time.monotonic() - since


def _channel(home: Home, points: Points) -> MemoryChannel:
    def record(effect: dict[str, Any]) -> None:
        points.here("before send")
        home.seen.add(effect)
        points.here("after send")

    return MemoryChannel(
        part_limit=PART_LIMIT, record=record, native_ids=lambda: f"{os.getpid()}-{time.monotonic_ns()}"
    )


def _ports(home: Home, store: Store, channel: MemoryChannel, log: Log, mark: Callable[[str], None]) -> Ports:
    settings = Settings(
        EngineId("script"),
        str(home.folder),
        people=Roles({PERSON.id: "owner"}),
        retry_first_s=0.01,
        poll_s=0.2,
        known_channels=(MEMORY,),
    )

    async def sweep() -> None:
        await sweep_leftovers(str(home.database), log)
        mark("swept")

    return Ports(
        store=store,
        clock=SystemClock(),
        ids=new_id,
        settings=lambda: settings,
        engines={ENGINE.id: _engine(home, store, log)},
        channels={MEMORY: channel},
        alive=is_alive,
        sweep=sweep,
        log=log,
    )


def _engine(home: Home, store: Store, log: Log) -> Engine:
    player = [sys.executable, "-m", "bench.crashing.player", str(SCRIPT), str(home.world)]
    config = ScriptConfig(command=player, environment=["PYTHONPATH"])
    host = EngineHost(
        StoreBlobs(store, SystemClock()),
        dict(os.environ),
        str(home.folder),
        str(home.database),
        log,
    )
    return ENGINE.build(config, host)


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
