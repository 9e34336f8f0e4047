"""Checks of engines: they may start slow programs, so a caller can give up waiting for them."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any, cast

import anyio

from pilothouse.bootstrap.app import App
from pilothouse.bootstrap.assembly import report_engines


class SlowPlugins:
    """Lists its engines when it may."""

    def __init__(self) -> None:
        self.go, self.is_done = threading.Event(), False

    def engines(self) -> list[Any]:
        self.go.wait(20)
        self.is_done = True
        return []


async def test_a_caller_that_gave_up_does_not_wait_for_a_slow_check() -> None:
    plugins = SlowPlugins()
    app = cast("App", SimpleNamespace(plugins=plugins, config=None))
    try:
        with anyio.move_on_after(0.01):
            await report_engines(app)
        assert not plugins.is_done
    finally:
        plugins.go.set()
