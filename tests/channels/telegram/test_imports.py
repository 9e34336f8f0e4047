"""Rendering and reading updates costs nothing: only opening a client imports the HTTP library."""

import subprocess
import sys

import pytest

PURE = ("", ".config", ".progress", ".render", ".trouble", ".wire")


def loaded_by(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("part", PURE)
def test_only_the_client_brings_the_http_library(part: str) -> None:
    loaded = loaded_by(f"import pilothouse.channels.telegram{part}")
    assert "pilothouse.channels.telegram" in loaded
    assert loaded.isdisjoint({"httpx2", "httpcore2", "h11", "anyio", "asyncio", "ssl", "aiohttp", "pyromark"})


def test_nothing_that_only_tests_need_is_imported_by_the_client() -> None:
    loaded = loaded_by("import pilothouse.channels.telegram.api, pilothouse.channels.telegram.webhook")
    assert "httpx2" in loaded
    assert loaded.isdisjoint({"aiohttp", "aiogram", "telegram", "tdjson", "pydantic", "httpx"})


def test_a_channel_is_built_without_the_http_library_markdown_and_the_webhook() -> None:
    loaded = loaded_by("import pilothouse.channels.telegram.channel")
    later = {f"pilothouse.channels.telegram.{part}" for part in ("api", "render", "progress", "webhook")}
    assert loaded.isdisjoint(later | {"httpx2", "httpcore2", "h11", "pyromark"})
