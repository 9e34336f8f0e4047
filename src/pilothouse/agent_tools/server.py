"""The server behind the tools: a listening socket from the first lease on, and MCP over HTTP from the first connection on.

The SDK costs about a second and 50 MB, so it is imported, in a thread, when an engine first connects. Until then a
connection waits in the socket's backlog. The socket is on the loopback interface, and every request needs a secret.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.to_thread

from pilothouse.agent_tools.access import Access
from pilothouse.agent_tools.bridge import SECRET, URL
from pilothouse.core.call import OWN_SERVER
from pilothouse.core.ids import SessionId
from pilothouse.runtime.agent_calls.caller import CallKeys
from pilothouse.runtime.ports import Ports

HOST = "127.0.0.1"
PATH = "/mcp"
WAITING = 64
"""Connections that may wait for the import."""
TIMEOUT_MS = 24 * 3600 * 1000
"""The longest call that engines should wait for: a question to people."""


class AgentToolServer:
    """Implements `ToolServer` of `runtime/ports.py`. `run` serves until it is cancelled."""

    def __init__(self, *, progress_every_s: float = 15.0) -> None:
        self._progress_every_s = progress_every_s
        self._socket: socket.socket | None = None
        self._bound = anyio.Event()
        self._access: Access | None = None

    @contextmanager
    def lease(self, ports: Ports, session_id: SessionId) -> Iterator[Mapping[str, Any]]:
        """Yield the MCP servers of a session, while a turn of it runs."""
        with self._accesses(ports).lease(session_id) as secret:
            yield {OWN_SERVER: self._describe(secret)}

    async def run(self, ports: Ports) -> None:
        await self._bound.wait()
        listening = self._listen()
        try:
            await anyio.wait_readable(listening)
            ports.log("agent_tools.starting")
            serve = await anyio.to_thread.run_sync(_import_serve, abandon_on_cancel=True)
            await serve(listening, ports, self._accesses(ports), CallKeys(), self._progress_every_s)
        finally:
            listening.close()

    def _accesses(self, ports: Ports) -> Access:
        if self._access is None:
            self._access = Access(ports.clock)
        return self._access

    def _listen(self) -> socket.socket:
        if self._socket is None:
            # With the protocol named, asyncio sets TCP_NODELAY; without it, each reply waits 40 ms for an acknowledgement.
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            self._socket.bind((HOST, 0))
            self._socket.listen(WAITING)
            self._socket.setblocking(False)
            self._bound.set()
        return self._socket

    def _describe(self, secret: str) -> dict[str, Any]:
        """Return the server as HTTP, and as a program for engines that take no other."""
        url = f"http://{HOST}:{self._listen().getsockname()[1]}{PATH}"
        return {
            "type": "http",
            "url": url,
            "headers": {"Authorization": f"Bearer {secret}"},
            "timeout": TIMEOUT_MS,
            "stdio": {
                "command": sys.executable,
                "args": ["-m", "pilothouse.agent_tools.bridge"],
                "env": {URL: url, SECRET: secret},
            },
        }


def _import_serve() -> Any:
    from pilothouse.agent_tools.protocol import serve

    return serve
