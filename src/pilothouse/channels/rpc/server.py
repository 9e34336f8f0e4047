"""Serves one client: the table of its requests, what it is told beside its runs, and what happens when it leaves.

`initialize` comes first. Answers to our own dialogs are taken while requests run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import anyio
import msgspec
from msgspec import Raw

from pilothouse.channels.client_runs import DISCONNECT_S
from pilothouse.channels.request_errors import INVALID_REQUEST, METHOD_NOT_FOUND, RequestError
from pilothouse.channels.rpc import (
    model_requests,
    run_requests,
    session_requests,
    tool_requests,
    workspace_requests,
)
from pilothouse.channels.rpc.connection import Connection, RpcSetup
from pilothouse.channels.rpc.model_requests import engine_of
from pilothouse.channels.rpc.notifications import SessionNoticeParams
from pilothouse.channels.rpc.params import (
    InitializeParams,
    InitializeResult,
    McpListParams,
    McpListResult,
    McpServerRow,
    ServerCapabilities,
    ServerInfo,
    Tui,
    UiContext,
)
from pilothouse.channels.rpc.protocol import (
    BUSY,
    INTERNAL,
    PROTOCOL_VERSION,
    REQUESTS,
    VERSION_MISMATCH,
)
from pilothouse.channels.stdio_frames import MAX_FRAME_BYTES, FrameReader, FrameWriter, Notification, Request
from pilothouse.channels.stdio_server import Respond, StdioServer, read_params
from pilothouse.core.channel import ChannelHost, Desk
from pilothouse.core.errors import PilothouseError, TryLater
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.message import Address, Part, conversation_id

MOST_NOTICES = 64

Handler = Callable[[Connection, Any, Respond], Awaitable[None]]


async def _list_mcp(client: Connection, _params: McpListParams, respond: Respond) -> None:
    rows = [McpServerRow(*row) for row in await client.setup.list_mcp()]
    await respond(McpListResult(tuple(rows)))


HANDLERS: Mapping[str, Handler] = {
    "run.start": run_requests.start_run,
    "run.cancel": run_requests.cancel_run,
    "session.list": session_requests.list_sessions,
    "session.history": session_requests.send_history,
    "model.list": model_requests.list_models,
    "model.set": model_requests.set_model,
    "skills.list": workspace_requests.list_skills,
    "context.inspect": workspace_requests.inspect_context,
    "mcp.list": _list_mcp,
    "auth.logout": session_requests.log_out,
    "theme.set": workspace_requests.set_theme,
    "shell.exec": workspace_requests.run_shell,
    "tool.call": tool_requests.call_tool,
}
PARAMS = {method.name: method.params for method in REQUESTS}


class RpcServer:
    def __init__(self, setup: RpcSetup, host: ChannelHost, reader: FrameReader, writer: FrameWriter) -> None:
        self._setup = setup
        self._host = host
        self._reader = reader
        self._writer = writer
        self._client: Connection | None = None
        self._told, self._notices = anyio.create_memory_object_stream[SessionNoticeParams](MOST_NOTICES)

    def conversations(self) -> tuple[ConversationId, ...]:
        """The conversations of ours that the client opened, and the folder's own."""
        if self._client is None:
            return ()
        ours = [feed.conversation for feed in self._client.feeds.values() if feed.address.channel == "rpc"]
        return (*ours, conversation_id(Address(self._client.address_of("").channel, str(self._setup.folder))))

    async def run(self, desk: Desk) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                self._client = Connection(self._setup, self._host, desk, self._writer, tasks)
                tasks.start_soon(self._client.runs.watch)
                tasks.start_soon(self._client.asks.watch)
                tasks.start_soon(self._send_notices)
                serve, hear = partial(self._serve, self._client), partial(self._hear, self._client)
                server = StdioServer(
                    self._writer,
                    self._client.dialogs,
                    serve,
                    hear,
                    first="initialize",
                    log=self._host.log,
                    failure=INTERNAL,
                    busy=BUSY,
                )
                await server.run(self._reader, tasks)
                await server.finish()
                await self._leave(self._client)
                tasks.cancel_scope.cancel()
        except* BrokenPipeError:
            self._host.log("rpc.client_gone")
            if self._client is not None:
                await self._leave(self._client)

    async def part(self, address: Address, part: Part) -> None:
        """Take a delivered message. The log already showed what belongs to a turn."""
        client = self._client
        if client is None:
            raise TryLater(1.0, "no client is connected")
        if ask_id := part.data.get("ask_id"):
            await client.show_app_ask(AskId(ask_id))
            return
        if part.data.get("turn_id"):
            return
        if client.runs.take_reply(part.data.get("reply_to") or "", part.text):
            return
        notice = SessionNoticeParams(client.name_of(address), part.data.get("kind") or "notice", part.text)
        try:
            self._told.send_nowait(notice)
        except anyio.WouldBlock:
            raise TryLater(1.0, "the client does not read") from None

    async def _send_notices(self) -> None:
        async for notice in self._notices:
            await self._writer.notify("session.notice", notice)

    async def _leave(self, client: Connection) -> None:
        """The client is gone: its own runs begin and go on, or are stopped. Those that it only follows always go on."""
        with anyio.move_on_after(DISCONNECT_S):
            if self._setup.on_disconnect == "finish":
                await client.runs.begin_all()
            else:
                own = {id: feed for id, feed in client.runs.active.items() if id in client.runs.own}
                for run_id, feed in own.items():
                    try:
                        await client.runs.stop(feed, run_id)
                    except PilothouseError as error:
                        self._host.log("rpc.stop_failed", level="warning", run=run_id, error=str(error))

    async def _hear(self, client: Connection, told: Notification) -> None:
        if told.method == "ui.context.update":
            await self._note_context(client, told.params)

    async def _note_context(self, client: Connection, params: Raw) -> None:
        try:
            client.ui_context = msgspec.json.decode(params, type=UiContext)
        except msgspec.MsgspecError as error:
            self._host.log("rpc.context_ignored", level="warning", error=str(error))

    async def _serve(self, client: Connection, request: Request, respond: Respond) -> None:
        found = self._initialize if request.method == "initialize" else HANDLERS.get(request.method)
        handler = handler_of(client, request, found)
        await handler(client, read_params(request.params, PARAMS[request.method]), respond)

    async def _initialize(self, client: Connection, params: InitializeParams, respond: Respond) -> None:
        if params.protocol_version != PROTOCOL_VERSION:
            ours = {"protocol_version": PROTOCOL_VERSION}
            text = (
                f"This server speaks protocol version {PROTOCOL_VERSION!r}, not {params.protocol_version!r}."
            )
            raise RequestError(VERSION_MISMATCH, text, ours)
        client.able = params.ui_capabilities
        able = ServerCapabilities(
            supports_run_diagnostics=self._setup.read_calls is not None, max_frame_bytes=MAX_FRAME_BYTES
        )
        theme = workspace_requests.load_theme(self._host.state_dir)
        setup = self._setup
        await respond(
            InitializeResult(
                PROTOCOL_VERSION,
                ServerInfo("pilothouse", setup.version),
                able,
                await engine_of(client),
                str(setup.folder),
                Tui(theme),
            )
        )


def handler_of(client: Connection, request: Request, handler: Handler | None) -> Handler:
    """Return the handler of a request. Raises `RequestError` if there is none, or if `initialize` did not come first."""
    if handler is None:
        raise RequestError(METHOD_NOT_FOUND, f"There is no method {request.method[:100]!r}.")
    if client.able is None and request.method != "initialize":
        raise RequestError(INVALID_REQUEST, f"Call initialize before {request.method}.")
    return handler
