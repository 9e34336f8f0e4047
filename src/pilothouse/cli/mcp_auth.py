"""`pilothouse mcp auth`: shows the link of a login, and takes the address that the browser ended with, if it is pasted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from pilothouse.bootstrap.terminal_text import say
from pilothouse.core.errors import PilothouseError
from pilothouse.core.mcp import McpServer
from pilothouse.core.text import long_span

OPEN_THIS = "Open this link within {within} and log in:\n\n{address}\n"
PASTE = (
    "At the end the browser goes to an address that begins with http://127.0.0.1. If it runs on another machine, that page "
    "does not load: copy its address, paste it here and press Enter."
)
MOST_BYTES = 10_000


async def log_in_here(id: str, server: McpServer, folder: Path, wait_s: float, opens_browser: bool) -> None:
    """Log in. Raises `LoginError`."""
    from pilothouse.mcp_client.login import LoginPlan, log_in

    async with anyio.create_task_group() as tasks:

        async def show(address: str, paste: Callable[[str], None]) -> None:
            say(OPEN_THIS.format(within=long_span(wait_s), address=address) + PASTE, sys.stdout)
            sys.stdout.flush()
            if opens_browser and _has_screen():
                await _open_browser(address)
            tasks.start_soon(_read_pasted, paste)

        try:
            await log_in(LoginPlan(id, server, folder, wait_s), show)
        finally:
            tasks.cancel_scope.cancel()


def _has_screen() -> bool:
    """Tell whether a browser would open a window here. Over SSH, it would open on the wrong machine or not at all."""
    if any(name in os.environ for name in ("SSH_CONNECTION", "SSH_TTY")):
        return False
    return sys.platform == "darwin" or any(name in os.environ for name in ("DISPLAY", "WAYLAND_DISPLAY"))


async def _open_browser(address: str) -> None:
    import webbrowser

    await anyio.to_thread.run_sync(partial(webbrowser.open, address), abandon_on_cancel=True)


async def _read_pasted(paste: Callable[[str], None]) -> None:
    """Read lines until the login is over. Without a terminal there is nothing to read."""
    pending = b""
    while len(pending) < MOST_BYTES:
        try:
            await anyio.wait_readable(sys.stdin)
            read = os.read(sys.stdin.fileno(), MOST_BYTES)
        except (OSError, ValueError):
            return
        if not read:
            return
        *lines, pending = (pending + read).split(b"\n")
        for line in filter(bytes.strip, lines):
            try:
                paste(line.decode(errors="replace"))
            except PilothouseError as error:
                say(str(error))
