"""The program that is killed where the platform stands outside: `python -m bench.crashing.gateway HOME [--kill-at N]`.

A gateway with one channel, as `platform.json` in HOME says, until it is asked to stop. N is the commit after which it dies.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import msgspec
from bench.crashing.house import HastyClock, Home, PointedLog, long_script, make_ports
from bench.crashing.points import Points

from pilothouse.bootstrap.machine import sweep_leftovers, this_node
from pilothouse.bootstrap.process import stop_on_signal
from pilothouse.core.channel import Channel, ChannelHost, ChannelSpec
from pilothouse.core.ids import UserId
from pilothouse.core.people import People as Roles
from pilothouse.core.secret import Secret
from pilothouse.core.store import Store
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.ports import StoreBlobs, SystemClock
from pilothouse.stores.sqlite import STORE

VIEWS = {"first_view_s": 0.05, "edit_every_s": 0.1}
"""The turns of the scenario are quick, and still show their progress."""


async def serve(home: Home, kill_at: int | None, since: float) -> None:
    told = json.loads(home.platform.read_text())
    points, times = Points(kill_at, home.last_words), dict[str, float]()
    log = PointedLog(home.log, points)

    def mark(what: str) -> None:
        times[what] = time.monotonic() - since

    async def sweep() -> None:
        await sweep_leftovers(str(home.database), log)
        mark("swept")

    config = STORE.config(path=str(home.database))
    async with STORE.open(config, on_commit=partial(points.here, "commit")) as store:
        channel = _channel(told, home, store, log)
        people = Roles({UserId(id): "owner" for id in told["owners"]})
        ports = make_ports(
            home, store, channel, log, script=long_script(home), sweep=sweep, people=people, **VIEWS
        )
        gateway = Gateway(ports, this_node("crash sweep"), on_ready=partial(mark, "ready"))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_on_signal, gateway.stop)
            await gateway.run()
            tasks.cancel_scope.cancel()
    home.report.write_text(json.dumps({"points": points.passed, "approvals": log.approvals, "times": times}))


def _channel(told: dict[str, Any], home: Home, store: Store, log: PointedLog) -> Channel:
    spec: ChannelSpec = import_module(f"pilothouse.channels.{told['channel']}").CHANNEL
    config = msgspec.convert(told["settings"], spec.config, dec_hook=_decode)
    host = ChannelHost(StoreBlobs(store, SystemClock()), str(home.folder), log, HastyClock())
    return spec.build(config, host)


def _decode(kind: type, value: Any) -> Any:
    if kind is Secret:
        return Secret(value)
    raise NotImplementedError(kind)


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--kill-at", type=int)
    parser.add_argument("--since", type=float, default=time.monotonic(), help="when this process was started")
    given = parser.parse_args(words)
    anyio.run(serve, Home(given.home), given.kill_at, given.since)


if __name__ == "__main__":
    main(sys.argv[1:])
