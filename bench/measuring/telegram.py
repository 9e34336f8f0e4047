"""The cost of Telegram in a running gateway: the channel as `up` builds it, then its HTTP client."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.measuring.starts import environment
from bench.measuring.table import Row

ROUNDS = 7
CODE = """
import json, sys, time
import anyio, anyio._backends._asyncio
import pilothouse.bootstrap.up, pilothouse.runtime.gateway, pilothouse.stores.sqlite
from pilothouse.core.channel import ChannelHost
from pilothouse.core.message import Content
from pilothouse.runtime.ports import SystemClock
from pilothouse.bootstrap.process import relax_collector
relax_collector()

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

began, before = time.process_time(), resident()
from pilothouse.channels.telegram import CHANNEL
channel = CHANNEL.build(CHANNEL.config(), ChannelHost(None, "", print, SystemClock()))
built, early = time.process_time(), len({name for name in sys.modules if name.split(".")[0] in ("httpx2", "httpcore2")})

async def open_and_close():
    async with open_client(Endpoint(Secret("1:x"))):
        pass

from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import Endpoint
from pilothouse.core.secret import Secret
anyio.run(open_and_close)
opened = time.process_time()
channel.render(Content("# A *heading* and `code`", "answer"))
rendered = time.process_time()
print(json.dumps([early, built - began, opened - built, rendered - opened, resident() - before]))
"""


def measure() -> list[Row]:
    """The least of several fresh interpreters, in CPU time."""
    runs: list[list[float]] = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", CODE], env=environment(), check=True, capture_output=True, text=True
            ).stdout
        )
        for _ in range(ROUNDS)
    ]
    early, built, opened, rendered, resident = (min(run[n] for run in runs) for n in range(5))
    return [
        Row("modules of the HTTP library before Telegram is opened", early, 0, "modules"),
        Row("building Telegram's channel, above the gateway", built * 1e3, None, "ms"),
        Row("opening its HTTP client, once", opened * 1e3, None, "ms", "with the trusted certificates"),
        Row("reading in what renders, with the first answer", rendered * 1e3, None, "ms"),
        Row("memory of all three", resident, 12, "MB"),
    ]
