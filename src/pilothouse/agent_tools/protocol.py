"""MCP over streamable HTTP, by the SDK: the only module that imports it.

The transport keeps no sessions: a request is complete in itself, so that a lost connection loses nothing. A call is
answered as an event stream whose headers are sent at once, and progress is reported while it waits: engines give up on a
silent call.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from pilothouse import __version__
from pilothouse.agent_tools.access import Access
from pilothouse.agent_tools.table import TOOLS
from pilothouse.agent_tools.tool import Tool, ToolCall
from pilothouse.core.call import OWN_SERVER
from pilothouse.core.errors import PilothouseError, find_fenced
from pilothouse.runtime.agent_calls.caller import CallKeys
from pilothouse.runtime.ports import Ports

PATH = "/mcp"
MOST_BODY_BYTES = 4_000_000
CLOSE_WITHIN_S = 1
SESSION = "pilothouse.session"
"""Key of the ASGI scope: the session that the secret belongs to."""
USE_ID = "claudecode/toolUseId"
BROKEN = "The tool failed because of an unexpected error. The log of Pilothouse has the details."

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def serve(
    listening: socket.socket,
    ports: Ports,
    access: Access,
    keys: CallKeys,
    progress_every_s: float,
    tools: Mapping[str, Tool] = TOOLS,
) -> None:
    """Serve on this socket until cancelled."""
    host, port = listening.getsockname()[:2]
    names = [f"{host}:{port}", f"localhost:{port}"]
    allowed = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=names,
        allowed_origins=[f"http://{name}" for name in names],
    )
    manager = StreamableHTTPSessionManager(
        _make_server(ports, keys, progress_every_s, tools),
        stateless=True,
        security_settings=allowed,
        max_request_body_size=MOST_BODY_BYTES,
    )
    config = uvicorn.Config(
        _Guarded(manager.handle_request, access),
        lifespan="off",
        log_config=None,
        access_log=False,
        date_header=False,
        server_header=False,
        timeout_graceful_shutdown=CLOSE_WITHIN_S,
        ws="none",
    )
    server = _Loopback(config)
    with _logged_by(ports):
        async with manager.run(), anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve_shielded, listening)
            try:
                await anyio.sleep_forever()
            finally:
                server.ended.set()


class _Loopback(uvicorn.Server):
    """Leaves signals to the gateway, and does nothing while nobody connects."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = anyio.Event()

    async def serve_shielded(self, listening: socket.socket) -> None:
        with anyio.CancelScope(shield=True):
            await self.serve([listening])

    @contextmanager
    # pyrefly: ignore [missing-override-decorator]
    def capture_signals(self) -> Iterator[None]:
        yield

    # pyrefly: ignore [missing-override-decorator]
    async def main_loop(self) -> None:
        await self.ended.wait()


class _Guarded:
    """Lets a request through only if its secret is valid, and adds the session that it belongs to."""

    def __init__(self, app: Callable[[Scope, Receive, Send], Awaitable[None]], access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        session_id = self._access.session_of(headers.get(b"authorization", b"").decode("latin-1"))
        if session_id is None:
            await _refuse(send, 401, b"The secret is unknown, or has expired.")
        elif scope["path"] != PATH:
            await _refuse(send, 404, b"There is nothing here.")
        else:
            scope[SESSION] = session_id
            await self._app(scope, receive, send)


async def _refuse(send: Send, status: int, why: bytes) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(why)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why})


def _make_server(
    ports: Ports, keys: CallKeys, progress_every_s: float, tools: Mapping[str, Tool]
) -> Server[Any]:
    listed = types.ListToolsResult(
        tools=[
            types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema())
            for tool in tools.values()
        ]
    )

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return listed

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        meta = ctx.meta or {}
        call = ToolCall(
            ports,
            keys,
            ctx.request.scope[SESSION],
            params.name,
            params.arguments or {},
            str(meta.get(USE_ID) or ""),
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_report_progress, ctx, progress_every_s)
            result = await _carry_out(call, tools)
            tasks.cancel_scope.cancel()
        return result

    return Server(OWN_SERVER, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


async def _carry_out(call: ToolCall, tools: Mapping[str, Tool]) -> types.CallToolResult:
    """Run a tool. What goes wrong is a result that the agent can read."""
    tool = tools.get(call.tool)
    try:
        if tool is None:
            known = ", ".join(tools)
            return _result(f"There is no tool {call.tool}. The tools are: {known}.", is_error=True)
        return _result(await tool.call(call))
    except PilothouseError as error:
        if find_fenced(error):
            raise
        return _result(str(error), is_error=True)
    except Exception as error:  # noqa: BLE001 - one tool call
        call.ports.log("agent_tools.broke", level="error", tool=call.tool, error=error)
        return _result(BROKEN, is_error=True)


def _result(text: str, *, is_error: bool = False) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=is_error)


async def _report_progress(ctx: Any, every_s: float) -> None:
    """Keep the call alive for as long as it waits, if the engine listens to progress."""
    waited_s = 0.0
    while True:
        await anyio.sleep(every_s)
        waited_s += every_s
        await ctx.session.report_progress(waited_s)


class _Handler(logging.Handler):
    def __init__(self, ports: Ports) -> None:
        super().__init__(logging.WARNING)
        self._ports = ports

    # pyrefly: ignore [missing-override-decorator]
    def emit(self, record: logging.LogRecord) -> None:
        text = f"{record.name}: {record.getMessage()}"
        self._ports.log("agent_tools.warned", level="warning", text=text, error=record.exc_info)


@contextmanager
def _logged_by(ports: Ports) -> Iterator[None]:
    """Send the warnings of the libraries to the log, not to the terminal."""
    handler = _Handler(ports)
    loggers = [logging.getLogger(name) for name in ("mcp", "uvicorn")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
