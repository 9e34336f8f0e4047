"""What Discord costs a gateway: nothing where it is not configured, and how much memory where it is, and quiet."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from anyio.abc import Process
from bench.measuring.machine import rss_kb
from bench.measuring.starts import CONFIG, IMPORTED, SETTLE_S, environment
from bench.measuring.table import Row

BOUND_MB = 100
START_S = 60.0
TOKEN = "MTAwMDAwMDAwMDAwMDAwMDAx.bench." + "x" * 30
DISCORD = """
[channels.discord]
token = "{token}"
api_base = "{url}/api/v10"
gateway_url = "{gateway}"
"""
HEAVY = ("discord", "aiohttp")


@asynccontextmanager
async def open_up(config: str) -> AsyncIterator[tuple[Process, Path]]:
    """`pilothouse up`, and the file in which it says what it imported."""
    with TemporaryDirectory(prefix="pilothouse-discord-") as home:
        (Path(home) / "config.toml").write_text(config)
        said = Path(home) / "said.txt"
        argv = [sys.executable, "-X", "importtime", "-m", "pilothouse", "up"]
        with said.open("wb") as stderr:
            process = await anyio.open_process(
                argv,
                env=environment(PILOTHOUSE_HOME=home),
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        async with process:
            try:
                await _until_ready(process, said)
                yield process, said
            finally:
                if process.returncode is None:
                    process.send_signal(signal.SIGTERM)


async def _until_ready(process: Process, said: Path) -> None:
    with anyio.move_on_after(START_S):
        while process.returncode is None:
            if "is ready" in _read(said):
                return
            await anyio.sleep(0.05)
    raise SystemExit(f"`pilothouse up` did not start:\n{_read(said)[-2000:]}")


def _read(said: Path) -> str:
    return said.read_text()


def _heavy(said: Path) -> int:
    """How many modules of Discord's library, and of what that brings, were imported."""
    return sum(match[3].partition(".")[0] in HEAVY for match in IMPORTED.finditer(_read(said)))


async def _measure() -> list[Row]:
    # What it brings would weigh on other figures.
    from bench.measuring.quiet_discord import CHANNELS, open_platform

    async with open_up(CONFIG) as (plain, said):
        await anyio.sleep(SETTLE_S)
        without, least_mb = _heavy(said), rss_kb(plain.pid) / 1024
    async with open_platform() as platform:
        wanted = CONFIG + DISCORD.format(token=TOKEN, url=platform.url, gateway=platform.gateway)
        async with open_up(wanted) as (process, said):
            with anyio.fail_after(START_S):
                await platform.greeted.wait()
            await anyio.sleep(SETTLE_S)
            imported, idle_mb = _heavy(said), rss_kb(process.pid) / 1024
    detail = f"{least_mb:.1f} MB without it; a server with {CHANNELS} channels, {SETTLE_S:g} s after READY"
    return [
        Row("modules of Discord's library in `up` without Discord", without, 0, "", f"{imported} with it"),
        Row("idle memory of `up` with Discord connected", idle_mb, BOUND_MB, "MB", detail),
    ]


def measure() -> list[Row]:
    return anyio.run(_measure)
