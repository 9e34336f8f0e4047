"""The configured MCP servers of a workspace: as engines take them, and connected for `/mcp` and for engines without a client.

The client and its library are imported when they are first needed."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from pilothouse.bootstrap.agent_processes import engine_environment
from pilothouse.config import Loaded, servers_in
from pilothouse.core.engine import no_isolation
from pilothouse.core.errors import ConfigError
from pilothouse.core.mcp import McpConnections, McpServer, McpStatus, for_engines
from pilothouse.core.text import long_span

if TYPE_CHECKING:
    from pilothouse.isolation.jail import Jails
    from pilothouse.mcp_client.connections import McpEnvironment

Log = Callable[..., None]
REPORT_S = 5.0
"""`/mcp` waits so long for servers that are connecting."""
ANSWER_S = 60.0
NO_SERVER = "There is no MCP server {id!r} here. /mcp lists them."
NOT_BEGUN = "No login to {id} is under way. /mcp auth {id} begins one."
NO_ANSWER = "{id} did not answer in time. Try again."
LOGGED_IN = "Logged in to {id}. It is used from the next message on."
OPEN_THIS = (
    "Open this link within {within} and log in to {id}:\n{address}\n\nAt the end the browser goes to an address that begins "
    "with http://127.0.0.1. If that page does not load, copy its address and send it here: /mcp auth {id} ADDRESS"
)


async def servers_for_engines(
    loaded: Callable[[], Loaded], log: Log, workspace: str, trusted: bool
) -> dict[str, Any]:
    """Return the enabled servers as tables of `Brief.mcp_servers`; a project's own only where it is trusted."""
    find = partial(find_servers, loaded(), log, workspace, trusted)
    servers = await anyio.to_thread.run_sync(find, abandon_on_cancel=True)
    folder = find_logins(loaded())
    enabled = {id: server for id, (server, _) in servers.items() if server.enabled}
    return {id: for_engines(await _with_login(id, server, folder)) for id, server in enabled.items()}


async def _with_login(id: str, server: McpServer, folder: Path) -> McpServer:
    """Give an engine the token of a login that was made here. One that cannot be refreshed is given as it is."""
    if not server.url or server.has_own_login:
        return server
    from pilothouse.mcp_client.login_file import LoginFile

    file = LoginFile(folder, id, server.url)
    login = file.read()
    if not login.access_token:
        return server
    if login.is_stale(time.time()):
        from pilothouse.mcp_client.oauth import refresh

        with anyio.move_on_after(REPORT_S):
            login = await refresh(id, server, file)
    headers = {**server.headers, "Authorization": f"Bearer {login.access_token}"}
    return msgspec.structs.replace(server, headers=headers)


def find_servers(
    loaded: Loaded, log: Log, workspace: str, trusted: bool
) -> Mapping[str, tuple[McpServer, str]]:
    """Return the servers, with the file that names each. A project's file that cannot be read is ignored."""
    try:
        return servers_in(loaded, Path(workspace), trusted=trusted)
    except ConfigError as error:
        log("mcp.project_ignored", level="warning", workspace=workspace, problem=str(error))
        return servers_in(loaded, Path(workspace), trusted=False)


def find_logins(loaded: Loaded) -> Path:
    """Return the folder in which logins to servers are kept."""
    return loaded.paths.data_dir / "mcp-logins"


def make_environment(
    loaded: Callable[[], Loaded], marker: str, log: Log, only: str, jails: Jails | None
) -> McpEnvironment:
    """Import the client and its library, which takes about a second."""
    from pilothouse.mcp_client.connections import McpEnvironment
    from pilothouse.processes import Launcher

    def find(workspace: str, trusted: bool) -> dict[str, tuple[McpServer, str]]:
        found = find_servers(loaded(), log, workspace, trusted)
        return {id: one for id, one in found.items() if only in ("", id)}

    return McpEnvironment(
        find,
        Launcher(jails.open if jails else nullcontext),
        engine_environment(os.environ, loaded()),
        marker,
        log,
        logins=find_logins(loaded()),
        isolation=jails.isolation if jails else no_isolation,
    )


class McpHost:
    """The connections of this process, opened when they are first needed, and the logins that are under way."""

    def __init__(
        self,
        loaded: Callable[[], Loaded],
        marker: str,
        log: Log,
        only: str = "",
        report_s: float = REPORT_S,
        jails: Jails | None = None,
    ) -> None:
        self._loaded, self._marker, self._log, self._only = loaded, marker, log, only
        self._report_s, self._jails = report_s, jails
        self._opened: McpConnections | None = None
        self._once = anyio.Lock()
        self._logins: dict[str, _ChatLogin] = {}
        self._tasks: TaskGroup

    @asynccontextmanager
    async def run(self) -> AsyncIterator[Self]:
        """Leaving it ends every connection, every program and every login."""
        from pilothouse.mcp_client.quiet import quiet

        with quiet():
            async with anyio.create_task_group() as self._tasks:
                try:
                    yield self
                finally:
                    self._tasks.cancel_scope.cancel()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[McpConnections]:
        """`EngineHost.open_mcp`: all engines share the connections."""
        yield await self._connections()

    async def report(self, workspace: str, trusted: bool) -> Sequence[McpStatus]:
        if not find_servers(self._loaded(), self._log, workspace, trusted):
            return ()
        with (await self._connections()).lease(workspace, trusted=trusted, own={}) as tools:
            await tools.settle(self._report_s)
            return tools.statuses()

    async def log_in(self, workspace: str, trusted: bool, id: str, pasted: str) -> str:
        found = find_servers(self._loaded(), self._log, workspace, trusted).get(id)
        if found is None:
            return NO_SERVER.format(id=id)
        if pasted:
            login = self._logins.get(id)
            return await login.paste(pasted) if login else NOT_BEGUN.format(id=id)
        if (earlier := self._logins.pop(id, None)) is not None:
            earlier.scope.cancel()
        login = self._logins[id] = _ChatLogin(id, found[0], self._loaded())
        self._tasks.start_soon(login.run)
        return await login.address()

    async def _connections(self) -> McpConnections:
        async with self._once:
            if self._opened is None:
                make = partial(
                    make_environment, self._loaded, self._marker, self._log, self._only, self._jails
                )
                env = await anyio.to_thread.run_sync(make, abandon_on_cancel=True)
                from pilothouse.mcp_client.connections import Connections

                self._opened = Connections(env, self._tasks)
        return self._opened


class _ChatLogin:
    """One login that was begun in a chat. Its answer comes to the loopback address, or is pasted."""

    def __init__(self, id: str, server: McpServer, loaded: Loaded) -> None:
        self._id, self._server, self._folder = id, server, find_logins(loaded)
        self._wait_s = loaded.config.gateway.mcp_login_s
        self._said = ""
        self._shown, self._ended = anyio.Event(), anyio.Event()
        self._paste: Callable[[str], None] = lambda text: None
        self.scope = anyio.CancelScope()

    async def run(self) -> None:
        from pilothouse.mcp_client.login import LoginError, LoginPlan, log_in

        with self.scope:
            try:
                await log_in(LoginPlan(self._id, self._server, self._folder, self._wait_s), self._show)
                self._said = LOGGED_IN.format(id=self._id)
            except LoginError as error:
                self._said = str(error)
        self._shown.set()
        self._ended.set()

    async def address(self) -> str:
        """Return what to tell people first: the address, or why there is none."""
        with anyio.move_on_after(ANSWER_S):
            await self._shown.wait()
        return self._said or NO_ANSWER.format(id=self._id)

    async def paste(self, text: str) -> str:
        from pilothouse.mcp_client.callback import LoginError

        try:
            self._paste(text)
        except LoginError as error:
            return self._said if self._ended.is_set() else str(error)
        with anyio.move_on_after(ANSWER_S):
            await self._ended.wait()
        return self._said if self._ended.is_set() else NO_ANSWER.format(id=self._id)

    async def _show(self, address: str, paste: Callable[[str], None]) -> None:
        self._paste = paste
        self._said = OPEN_THIS.format(id=self._id, within=long_span(self._wait_s), address=address)
        self._shown.set()
