"""What Telegram adds to a gateway that runs: the whole channel, as `up` builds it, with its HTTP client."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.measuring.starts import environment
from bench.measuring.table import Row

ROUNDS = 7
CODE = """
import json, time
import anyio, anyio._backends._asyncio
import pilothouse.bootstrap.up, pilothouse.runtime.gateway, pilothouse.stores.sqlite
from pilothouse.core.channel import ChannelHost
from pilothouse.core.message import Content
from pilothouse.runtime.clock import SystemClock
from pilothouse.bootstrap.event_loop import spare_collector
spare_collector()

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

began, before = time.process_time(), resident()
from pilothouse.channels.telegram import CHANNEL
channel = CHANNEL.build(CHANNEL.config(), ChannelHost(None, "", print, SystemClock()))
from pilothouse.channels.telegram.trust import load_trust
imported = time.process_time()
load_trust()
trusted = time.process_time()
channel.render(Content("# A *heading* and `code`", "answer"))
rendered = time.process_time()
print(json.dumps([imported - began, trusted - imported, rendered - trusted, resident() - before]))
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
    imported, certificates, rendered, resident = (min(run[n] for run in runs) for n in range(4))
    return [
        Row("import of Telegram and its HTTP client, above the gateway", imported * 1e3, 60, "ms"),
        Row("memory of both", resident, 12, "MB", "with the trusted certificates and the first answer"),
        Row("reading the trusted certificates, once", certificates * 1e3, None, "ms"),
        Row("reading in what renders, with the first answer", rendered * 1e3, None, "ms"),
    ]
