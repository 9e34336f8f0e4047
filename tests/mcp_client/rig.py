"""Connections to real servers: programs, and HTTP on loopback."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from pilothouse.core.mcp import McpServer, McpTools
from pilothouse.mcp_client.connection import Waits
from pilothouse.mcp_client.connections import Connections, McpEnvironment
from pilothouse.mcp_client.quiet import quiet
from pilothouse.processes import Launcher

PROGRAM = Path(__file__).with_name("stdio_server.py")
LONG_S = 100.0
PATIENT = Waits(LONG_S, LONG_S)


@asynccontextmanager
async def open_connections(env: McpEnvironment) -> AsyncIterator[Connections]:
    """Leaving it ends every connection and every program."""
    with quiet():
        async with anyio.create_task_group() as tasks:
            try:
                yield Connections(env, tasks)
            finally:
                tasks.cancel_scope.cancel()


def program(manner: str = "", **more: Any) -> McpServer:
    return McpServer(command=sys.executable, args=(str(PROGRAM), manner), **more)


class Rig:
    """`servers` may be changed at any time; `more` is for the environment of the connections."""

    def __init__(
        self, folder: Path, servers: Mapping[str, McpServer], waits: Waits = PATIENT, **more: Any
    ) -> None:
        self.folder = folder
        self.servers = dict(servers)
        self.waits = waits
        self.more: dict[str, Any] = {"launcher": Launcher(), **more}
        self.log: list[tuple[str, dict[str, object]]] = []

    def note(self, event: str, **fields: object) -> None:
        self.log.append((event, fields))

    @asynccontextmanager
    async def connections(self) -> AsyncIterator[Connections]:
        env = McpEnvironment(
            lambda workspace, trusted: {id: (server, "config.toml") for id, server in self.servers.items()},
            environment={"PATH": "/usr/bin:/bin", "SECRET_TOKEN": "hidden"},
            node_marker="marker",
            log=self.note,
            waits=self.waits,
            logins=self.folder / "logins",
            **self.more,
        )
        async with open_connections(env) as found:
            yield found

    @asynccontextmanager
    async def tools(self) -> AsyncIterator[McpTools]:
        async with self.connections() as connections:
            with connections.lease(str(self.folder), trusted=True, own={}) as tools:
                await tools.settle(LONG_S)
                yield tools
