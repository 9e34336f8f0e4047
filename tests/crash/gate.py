"""A gateway in a process of its own, driven by JSON lines: `python -m tests.crash.gate HOME`. Linux only.

It reads `{"say": TEXT, "id": ID}`, `{"limit": BYTES}` (no file may grow beyond; null lifts it) and `{"stop": true}`,
and writes what happens: ready, taken, acked, refused, shown, ended.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from bench.crashing.house import SCRIPT, Home, Log, make_channel, make_ports

from pilothouse.bootstrap import this_node
from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.errors import PilothouseError
from pilothouse.runtime.gateway import Gateway
from pilothouse.stores.sqlite import STORE


def tell(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class ToldLog(Log):
    def __call__(self, event: str, /, **fields: object) -> None:
        super().__call__(event, **fields)
        if event == "engines.taken":
            tell(taken=True)


async def serve(home: Home, script: Path, lease_s: float, standby: bool) -> None:
    def record(effect: dict[str, Any]) -> None:
        home.seen.add(effect)
        tell(shown=effect["text"])

    async with STORE.open(STORE.config(path=str(home.database))) as store:
        channel = make_channel(record)
        ports = make_ports(home, store, channel, ToldLog(home.log), script=script, lease_s=lease_s)
        gateway = Gateway(ports, this_node("gate"), standby=standby, on_ready=lambda: tell(ready=True))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_obey, tasks, channel, gateway)
            await gateway.run()
            tasks.cancel_scope.cancel()


async def _obey(tasks: TaskGroup, channel: MemoryChannel, gateway: Gateway) -> None:
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        order = json.loads(line)
        if "say" in order:
            tasks.start_soon(_say, channel, order["say"], order["id"])
        elif "limit" in order:
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (hard if order["limit"] is None else order["limit"], hard)
            )
            tell(limited=order["limit"])
        else:
            gateway.stop()


async def _say(channel: MemoryChannel, text: str, native_id: str) -> None:
    try:
        await channel.say(text, native_id=native_id)
    except PilothouseError as error:
        tell(refused=native_id, error=str(error))
    else:
        tell(acked=native_id)


def _flat(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flat(inner)
    else:
        yield error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--script", type=Path, default=SCRIPT)
    parser.add_argument("--lease-s", type=float, default=10.0)
    parser.add_argument("--standby", action="store_true")
    given = parser.parse_args()
    error: BaseException | None = None
    try:
        anyio.run(serve, Home(given.home), given.script, given.lease_s, given.standby)
    except BaseException as caught:  # noqa: BLE001 - whoever drives us reads how it ended
        error = next(_flat(caught))
    tell(ended=type(error).__name__ if error else "", error=str(error or ""))
    os._exit(1 if error else 0)  # the thread that reads stdin may never return


if __name__ == "__main__":
    main()
