"""The MCP servers of the native engine: connected by a task of the engine, leased by each session.

The first session that has servers opens the connections; an engine without any never imports the client.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup, TaskStatus

from pilothouse.core.engine import Brief
from pilothouse.core.event import Notice
from pilothouse.core.mcp import McpConnections, McpTools, OpenMcp, no_mcp

SETTLE_S = 10.0
"""A turn waits so long for servers that are connecting, then begins without them. A late one is not waited for again."""
UNUSABLE = "The MCP server {id} cannot be used: {problem}"
SLOW = "The MCP server {id} is still connecting; this turn begins without its tools."


class Servers:
    def __init__(self, open_mcp: OpenMcp) -> None:
        self._open = open_mcp
        self._opened: McpConnections | None = None
        self._lock = anyio.Lock()
        self._told: set[str] = set()

    @asynccontextmanager
    async def lease(self, brief: Brief, tasks: TaskGroup) -> AsyncIterator[McpTools]:
        """Use the servers of a workspace. They connect in the background."""
        if not brief.mcp_servers:
            async with no_mcp() as none:
                with none.lease(brief.workspace, trusted=brief.trusted, own={}) as tools:
                    yield tools
            return
        async with self._lock:
            if self._opened is None:
                self._opened = await tasks.start(self._hold)
        with self._opened.lease(brief.workspace, trusted=brief.trusted, own=brief.mcp_servers) as tools:
            yield tools

    def new_problems(self, tools: McpTools) -> Sequence[Notice]:
        """Return what people were not yet told about servers without tools."""
        found = [
            SLOW.format(id=one.id)
            if one.state == "connecting"
            else UNUSABLE.format(id=one.id, problem=one.problem)
            for one in tools.statuses()
            if one.state in ("connecting", "error", "auth_required")
        ]
        new = [text for text in found if text not in self._told]
        self._told = set(found)
        return [Notice("warning", "mcp", text) for text in new]

    async def _hold(self, *, task_status: TaskStatus[McpConnections]) -> None:
        """Keep the connections open until the engine is left: they belong to one task."""
        async with self._open() as connections:
            task_status.started(connections)
            await anyio.sleep_forever()
