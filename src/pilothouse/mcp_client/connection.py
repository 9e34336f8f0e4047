"""One connection to one server: connects in the background, stays, and connects again when it is next needed.

`run` owns the connection. Everybody else reads its state, and calls tools, from tasks of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from math import inf
from typing import Any

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from pydantic import ValidationError

from pilothouse import __version__
from pilothouse.core.mcp import Elicit, McpResult, McpServer, McpState, McpStatus, McpTool
from pilothouse.mcp_client.elicitation import Questions, RunningCall
from pilothouse.mcp_client.result import error_result, read_result, read_tools
from pilothouse.mcp_client.transport import Fault, Streams

MOST_PAGES, MOST_TOOLS = 100, 500
LATE = "It did not answer within {seconds:g} s."
LATE_CALL = "The MCP server {id} did not answer within {seconds:g} s."
LONGEST_S = 7 * 86_400.0
"""The SDK's own limit of a call: ours stands still while a person is asked."""
REFUSED = "It refused the request (HTTP {status})."
NO_PROSE = "It does not speak MCP: it printed “{words}”."
UNUSABLE = "The MCP server {id} cannot be used: {problem}"
NO_RESULT = "The MCP server {id} answered with something that is no result of a tool. Tell its makers."
OTHER = "It ended the connection: {error}"


class Waits(Struct, frozen=True):
    connect_s: float = 60.0
    request_s: float = 25.0
    """Less than half of it: an older server may give no answer at all to the first question."""


Open = Callable[[Fault], AbstractAsyncContextManager[Streams]]


class Named(Struct, frozen=True):
    """A server, and where it is named."""

    id: str
    server: McpServer
    source: str


class Connection:
    def __init__(self, named: Named, open_streams: Open, log: Callable[..., None], waits: Waits) -> None:
        self.named = named
        self.state: McpState = "connecting"
        self.problem = ""
        self.is_late = False
        """Somebody waited for it in vain, and it was not ready since."""
        self.tools: Sequence[McpTool] = ()
        """Those of the last connection, until there is another."""
        self._open = open_streams
        self._log = log
        self._waits = waits
        self._questions = Questions(named.id)
        self._client: Client | None = None
        self._fault = Fault()
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._changed = anyio.Event()
        self._wanted.set()

    @property
    def status(self) -> McpStatus:
        named = self.named
        server, is_ready = named.server, self.state == "ready"
        tools, problem = (len(self.tools), "") if is_ready else (0, self.problem)
        return McpStatus(named.id, server.transport, server.target, named.source, self.state, tools, problem)

    def want(self) -> None:
        """Connect again if the last attempt failed or the connection ended."""
        is_over = self.state in ("error", "auth_required") or self._fault.ended.is_set()
        if is_over and not self._wanted.is_set():
            self.state = "connecting"
            self._settled = anyio.Event() if self._settled.is_set() else self._settled
            self._wanted.set()

    async def settle(self) -> None:
        await self._settled.wait()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted, self._fault = anyio.Event(), Fault()
            try:
                await self._stay(self._fault)
                problem = self._fault.problem
            except Exception as error:  # noqa: BLE001 - whatever a server or its transport does becomes a state
                problem = self._explain(error, self._fault)
            self._client = None
            if self._wanted.is_set():  # somebody needs it already
                continue
            self.state = "auth_required" if self._fault.needs_login else "error"
            self.problem = problem
            self._log("mcp.disconnected", server=self.named.id, state=self.state, problem=self.problem)
            self._settled.set()

    async def call(self, tool: str, arguments: Mapping[str, Any], elicit: Elicit | None = None) -> McpResult:
        """Call a tool, after connecting again if need be. All failures are results."""
        self.want()
        with anyio.move_on_after(self._waits.connect_s):
            await self.settle()
        client, fault = self._client, self._fault
        if client is None or self.state != "ready":
            problem = self.problem or LATE.format(seconds=self._waits.connect_s)
            return error_result(UNUSABLE.format(id=self.named.id, problem=problem))
        seconds = self.named.server.timeout_s
        running = RunningCall(elicit, seconds)
        try:
            with running.limit, self._questions.of(running):
                return read_result(
                    await client.call_tool(tool, dict(arguments), read_timeout_seconds=LONGEST_S)
                )
        except Exception as error:  # noqa: BLE001 - one tool call
            return self._failed_call(error, fault)
        return error_result(LATE_CALL.format(id=self.named.id, seconds=seconds))

    def _failed_call(self, error: Exception, fault: Fault) -> McpResult:
        if isinstance(error, ValidationError):
            return error_result(NO_RESULT.format(id=self.named.id))
        if isinstance(error, MCPError) and not fault.ended.is_set() and fault.status < 400:
            return error_result(f"The MCP server {self.named.id} answered with an error: {error}")
        problem = self._explain(error, fault)
        fault.note(problem)
        return error_result(UNUSABLE.format(id=self.named.id, problem=problem))

    async def _stay(self, fault: Fault) -> None:
        client = Client(
            self._open(fault),
            read_timeout_seconds=self._waits.request_s,
            client_info=types.Implementation(name="pilothouse", version=__version__),
            message_handler=self._hear,
            elicitation_callback=self._questions.answer,
        )
        with anyio.fail_after(self._waits.connect_s) as limit:
            async with client:
                self.tools = await self._list(client)
                limit.deadline = inf
                self._client, self.state, self.problem, self.is_late = client, "ready", "", False
                self._log("mcp.connected", server=self.named.id, tools=len(self.tools))
                self._settled.set()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._follow_changes, client)
                    await fault.ended.wait()
                    tasks.cancel_scope.cancel()

    async def _hear(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed.set()

    async def _follow_changes(self, client: Client) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            try:
                self.tools = await self._list(client)
            except Exception as error:  # noqa: BLE001 - the old list stays
                self._log("mcp.unlisted", server=self.named.id, level="warning", error=str(error))

    async def _list(self, client: Client) -> list[McpTool]:
        if client.server_capabilities.tools is None:
            return []
        found: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await client.list_tools(cursor=cursor, cache_mode="refresh")
            found += page.tools
            cursor = page.next_cursor
            if not cursor or len(found) >= MOST_TOOLS:
                break
        return read_tools(self.named.id, found[:MOST_TOOLS])

    def _explain(self, error: BaseException, fault: Fault) -> str:
        """Say what happened; what the transport noted is nearer to the cause than the SDK's error."""
        if fault.problem:
            return fault.problem
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if fault.status >= 400:
            return REFUSED.format(status=fault.status)
        is_late = isinstance(error, MCPError) and error.code == types.REQUEST_TIMEOUT
        if fault.prose:
            return NO_PROSE.format(words=fault.prose)
        if isinstance(error, TimeoutError) or is_late:
            return LATE.format(seconds=self._waits.request_s)
        return OTHER.format(error=str(error) or type(error).__name__)
