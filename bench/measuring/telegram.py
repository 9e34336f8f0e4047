"""What Telegram adds to a gateway that runs: its modules, and the HTTP library that they use."""

from __future__ import annotations

import json
import subprocess
import sys

from bench.measuring.starts import environment
from bench.measuring.table import Row

ROUNDS = 7
CODE = """
import importlib.metadata, json, time
import anyio, anyio._backends._asyncio
import pilothouse.bootstrap.up, pilothouse.runtime.gateway, pilothouse.stores.sqlite

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

began, before = time.process_time(), resident()
import pilothouse.channels.telegram.client, pilothouse.channels.telegram.webhook, httpcore2
imported = time.process_time()
import httpx2
httpx2.create_ssl_context()
print(json.dumps([imported - began, time.process_time() - imported, resident() - before]))
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
    imported, certificates, resident = (min(run[n] for run in runs) for n in range(3))
    return [
        Row("import of Telegram and its HTTP client, above the gateway", imported * 1e3, 60, "ms"),
        Row("memory of both", resident, 12, "MB", "with the trusted certificates"),
        Row("reading the trusted certificates, once", certificates * 1e3, None, "ms"),
    ]
