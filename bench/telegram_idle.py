"""`bench/telegram idle`: how often `pilothouse up` wakes while nobody speaks, and how much it computes then.

The gateway is a process of its own with default settings, the script engine and Telegram; the tests' Bot API server answers its
long polls. One message is answered first. A wake-up is a voluntary context switch of the main thread, as the kernel counts them.
Missing a bound is exit code 1. Linux only.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import anyio
from bench.measuring.machine import describe
from bench.measuring.starts import environment, program
from bench.measuring.table import Row, render
from tests.channels.telegram.server.running import Server, open_server

SETTLE_S, WATCH_S = 15.0, 120.0
CONFIG = """
[gateway]
default_engine = "script"

[people]
owners = ["telegram:{owner}"]

[channels.telegram]
token = "{token}"
api_base = "{url}"
"""


class Activity(NamedTuple):
    """Counts since the start of a process: wake-ups of the main thread and of all, and seconds of CPU."""

    main: int
    all: int
    cpu_s: float


def activity(pid: int) -> Activity:
    tasks = {task.name: task for task in Path(f"/proc/{pid}/task").iterdir()}
    wakes = {name: _voluntary(task) for name, task in tasks.items()}
    cpu_ns = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.values())
    return Activity(wakes[str(pid)], sum(wakes.values()), cpu_ns / 1e9)


def _voluntary(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


@asynccontextmanager
async def open_up(server: Server, home: Path, owner: int) -> AsyncIterator[int]:
    """Run `pilothouse up`; its process id, once the first message was answered."""
    config = CONFIG.format(owner=owner, token=server.token, url=server.url)
    (home / "config.toml").write_text(config)
    argv = [*program(), "up"]
    env = environment(PILOTHOUSE_HOME=str(home))
    async with await anyio.open_process(
        argv,
        env=env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process.pid
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)


async def measure(home: Path) -> list[Row]:
    async with open_server() as server:
        ada = server.person("Ada")
        async with open_up(server, home, ada.id) as pid:
            ada.say("hello")
            with anyio.fail_after(60):
                await server.world.until(lambda: bool(server.world.shown(ada.chat.id)))
            await anyio.sleep(SETTLE_S)
            before, began = activity(pid), time.monotonic()
            await anyio.sleep(WATCH_S)
            after, took_s = activity(pid), time.monotonic() - began
    wakes, main = (after.all - before.all) / took_s, (after.main - before.main) / took_s
    share = 100 * (after.cpu_s - before.cpu_s) / took_s
    told = f"{wakes:.2f} context switches of all threads; {took_s:.0f} s with Telegram connected"
    return [
        Row("idle `up`: wake-ups of the event loop per second", main, 1, "", told),
        Row("idle `up`: CPU", share, 0.1, "%", f"{1e3 * (after.cpu_s - before.cpu_s):.0f} ms"),
    ]


def main() -> int:
    with TemporaryDirectory(prefix="pilothouse-idle-") as folder:
        rows = anyio.run(measure, Path(folder))
    print(render(rows, describe(), "bench/telegram idle"))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
