"""The connections of one process: opened by the first lease of a workspace, kept for a while after the last one.

Implements `McpConnections` of `core/mcp.py`. A program is started for each workspace; an address is shared by all. What
came with a session is shared only by those to which the same was sent: our own server has a secret for each session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from pilothouse.core.call import OWN_SERVER
from pilothouse.core.engine import NODE_MARKER, ProcessStart, no_isolation
from pilothouse.core.isolation import OPEN, Isolation
from pilothouse.core.mcp import (
    Elicit,
    McpResult,
    McpServer,
    McpStatus,
    McpTool,
    McpTools,
    from_brief,
    program_of,
)
from pilothouse.mcp_client.connection import Connection, Named, Waits
from pilothouse.mcp_client.login_file import LoginFile
from pilothouse.mcp_client.oauth import Authorize, OAuth
from pilothouse.mcp_client.result import error_result
from pilothouse.mcp_client.transport import Fault, Streams, open_http, open_stdio
from pilothouse.processes import BASE_NAMES, Launcher, allowed_environment

IDLE_S = 600.0
"""A connection without a lease is kept so long."""
NO_TOOL = "There is no tool {name}. Its server may have ended, or have another name for it."

CLIENT = "the editor"
"""The source of servers that came with a session."""
Key = tuple[str, ...]


class McpEnvironment(Struct, frozen=True):
    """The parts that connections are made from. `find` returns the servers of a workspace, with the file that names each."""

    find: Callable[[str, bool], Mapping[str, tuple[McpServer, str]]]
    launcher: Launcher
    environment: Mapping[str, str]
    node_marker: str
    log: Callable[..., None]
    idle_s: float = IDLE_S
    waits: Waits = Waits()
    logins: Path | None = None
    """The folder of the logins; without one, no server is logged in to."""
    authorize: Authorize | None = None
    """A person who can log in at once. Without one, a server that wants a login is `auth_required`."""
    isolation: Callable[[str], Isolation] = no_isolation
    """As in `EngineHost`: a program is kept while it stays the same."""


class _Kept:
    def __init__(self, connection: Connection, isolation: Isolation) -> None:
        self.connection = connection
        self.isolation = isolation
        self.scope = anyio.CancelScope()
        self.leases = 0
        self.released = 0
        """Counts releases: a wait for the end of an idle time is over if another lease came between."""


class Connections:
    def __init__(self, env: McpEnvironment, tasks: TaskGroup) -> None:
        self._env = env
        self._tasks = tasks
        self._kept: dict[Key, _Kept] = {}

    @contextmanager
    def lease(self, workspace: str, *, trusted: bool, own: Mapping[str, Any]) -> Iterator[McpTools]:
        found = self._env.find(workspace, trusted)
        sent = [id for id in own if id not in found or not found[id][0].enabled]
        named = [Named(id, server, source) for id, (server, source) in found.items() if id not in sent]
        named += [Named(id, from_brief(own[id]), "" if id == OWN_SERVER else CLIENT) for id in sent]
        kept = {one.id: self._take(one, workspace, trusted) for one in named if one.server.enabled}
        try:
            yield _Leased(named, {id: one.connection for id, one in kept.items()})
        finally:
            for id, one in kept.items():
                self._release(one, 0.0 if id == OWN_SERVER else self._env.idle_s)

    def _take(self, named: Named, workspace: str, trusted: bool) -> _Kept:
        key = (named.id, workspace if named.server.transport == "stdio" else "")
        # Each session has its own secret for our server, and an editor may send another server under the same name.
        if named.id == OWN_SERVER or named.source == CLIENT:
            key = (*key, repr(named.server))
        kept, env = self._kept.get(key), self._env
        isolation = env.isolation(workspace) if named.server.transport == "stdio" else OPEN
        if kept is None or kept.connection.named != named or kept.isolation != isolation:
            if kept is not None:
                kept.scope.cancel()
            open_streams = partial(self._open, named, workspace, trusted, isolation)
            kept = self._kept[key] = _Kept(Connection(named, open_streams, env.log, env.waits), isolation)
            self._tasks.start_soon(self._run, key, kept)
        else:
            kept.connection.want()
        kept.leases += 1
        return kept

    async def _run(self, key: Key, kept: _Kept) -> None:
        with kept.scope:
            await kept.connection.run()
        if self._kept.get(key) is kept:
            del self._kept[key]

    def _release(self, kept: _Kept, idle_s: float) -> None:
        kept.leases -= 1
        kept.released += 1
        if kept.leases == 0:
            self._tasks.start_soon(self._end_idle, kept, kept.released, idle_s)

    async def _end_idle(self, kept: _Kept, released: int, idle_s: float) -> None:
        await anyio.sleep(idle_s)
        if kept.leases == 0 and kept.released == released:
            kept.scope.cancel()

    def _open(
        self, named: Named, workspace: str, trusted: bool, isolation: Isolation, fault: Fault
    ) -> AbstractAsyncContextManager[Streams]:
        env, server = self._env, named.server
        if server.url:
            return open_http(server, fault, self._auth(named, fault))
        own = {**server.env, NODE_MARKER: env.node_marker}
        start = ProcessStart(
            f"MCP server {named.id}",
            program_of(server),
            workspace,
            allowed_environment(env.environment, BASE_NAMES, own),
            workspace,
            trusted=trusted,
            isolation=isolation,
        )
        return open_stdio(env.launcher, start, fault)

    def _auth(self, named: Named, fault: Fault) -> OAuth | None:
        env, server = self._env, named.server
        if env.logins is None or server.has_own_login:
            return None
        file = LoginFile(env.logins, named.id, server.url)
        return OAuth(named.id, server, file, fault, env.authorize)


class _Leased:
    """The servers of one workspace, for one turn."""

    def __init__(self, named: Sequence[Named], connections: Mapping[str, Connection]) -> None:
        self._named = named
        self._connections = connections

    def statuses(self) -> Sequence[McpStatus]:
        return [
            self._connections[one.id].status
            if one.id in self._connections
            else McpStatus(one.id, one.server.transport, one.server.target, one.source, "disabled")
            for one in self._named
        ]

    def tools(self) -> Sequence[McpTool]:
        ready = [one for one in self._connections.values() if one.state == "ready"]
        return [tool for one in ready for tool in one.tools]

    async def settle(self, within_s: float) -> None:
        expected = [one for one in self._connections.values() if not one.is_late]
        with anyio.move_on_after(within_s):
            for one in expected:
                await one.settle()
        for one in expected:
            one.is_late = one.state == "connecting"

    async def call(self, name: str, arguments: Mapping[str, Any], elicit: Elicit | None = None) -> McpResult:
        for connection in self._connections.values():
            for tool in connection.tools:
                if tool.name == name:
                    return await connection.call(tool.tool, arguments, elicit)
        server = name.removeprefix("mcp__").partition("__")[0]
        if (ended := self._connections.get(server)) is not None and ended.state != "ready":
            return await ended.call(name.removeprefix(f"mcp__{server}__"), arguments, elicit)
        return error_result(NO_TOOL.format(name=name))
