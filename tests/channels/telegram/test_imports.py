"""What renders and reads updates costs nothing: only opening a client brings the HTTP library."""

import subprocess
import sys

import pytest

PURE = ("", ".endpoint", ".pacing", ".progress", ".render", ".shapes", ".trouble", ".wire")


@pytest.mark.parametrize("part", PURE)
def test_only_the_client_brings_the_http_library(part: str) -> None:
    code = f"import sys, pilothouse.channels.telegram{part}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "pilothouse.channels.telegram" in loaded
    assert loaded.isdisjoint({"httpcore2", "h11", "anyio", "asyncio", "ssl", "aiohttp", "pyromark"})


def test_nothing_that_only_tests_need_is_imported_by_the_client() -> None:
    code = "import sys, pilothouse.channels.telegram.client, pilothouse.channels.telegram.webhook; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"aiohttp", "aiogram", "telegram", "tdjson", "pydantic", "httpx"}.isdisjoint(done.stdout.split())


def test_a_channel_that_polls_starts_without_markdown_and_without_a_door() -> None:
    code = "import sys, pilothouse.channels.telegram.channel; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    later = {
        "pyromark",
        *(f"pilothouse.channels.telegram.{part}" for part in ("render", "progress", "webhook")),
    }
    assert "h11" in loaded
    assert loaded.isdisjoint(later | {"urllib.request", "http.cookiejar", "httpcore2", "importlib.metadata"})
