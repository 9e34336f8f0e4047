"""The modules that render import no library: Discord's is imported when the channel is opened."""

import subprocess
import sys

import pytest

PURE = (
    "addresses",
    "buttons",
    "config",
    "markdown",
    "payload",
    "progress",
    "receive",
    "render",
    "servers",
    "trouble",
    "wire",
)


@pytest.mark.parametrize("part", PURE)
def test_rendering_costs_nothing(part: str) -> None:
    code = f"import sys, pilothouse.channels.discord.{part}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"discord", "aiohttp", "anyio", "asyncio", "ssl", "pyromark"})


def test_the_channel_itself_is_known_without_its_library() -> None:
    code = "import sys, pilothouse.channels.discord as it; assert it.CHANNEL.title; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint({"discord", "aiohttp", "anyio", "asyncio", "ssl"})


def test_the_channel_brings_nothing_for_voices() -> None:
    code = "import sys, pilothouse.channels.discord.channel; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"nacl", "davey", "simcord", "hikari"}.isdisjoint(done.stdout.split())
