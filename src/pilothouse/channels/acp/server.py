"""Serves one client: the table of its requests, messages outside of turns, and what happens when it leaves.

The client's prompts go on when it leaves; with the next `session/load` it sees how they ended.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from msgspec import Struct

from pilothouse.channels.acp.connection import ACP, AcpSetup, Connection, OpenSession, Prompt
from pilothouse.channels.acp.mcp_servers import read_servers
from pilothouse.channels.acp.options import (
    modes_of,
    options_of,
    set_mode,
    set_option,
    tell_commands,
    tell_options,
)
from pilothouse.channels.acp.prompt import read_prompt
from pilothouse.channels.acp.translate import TurnUpdates
from pilothouse.channels.acp.updates import AgentChunk, InfoUpdate, UserChunk
from pilothouse.channels.acp.wire import (
    INTERNAL,
    PROTOCOL,
    ConfigOptions,
    Implementation,
    InitializeParams,
    InitializeResult,
    ListSessionsParams,
    NewSession,
    NewSessionParams,
    Nothing,
    OpenSessionParams,
    PromptParams,
    PromptResult,
    SessionInfo,
    SessionParams,
    Sessions,
    SessionState,
    SetModeParams,
    SetOptionParams,
    TextBlock,
)
from pilothouse.channels.client_runs import DISCONNECT_S, LOCAL
from pilothouse.channels.request_errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RequestError
from pilothouse.channels.session_feed import Run
from pilothouse.channels.stdio_frames import FrameReader, FrameWriter, Notification, Request
from pilothouse.channels.stdio_server import Respond, StdioServer, read_params
from pilothouse.core.channel import ChannelHost, Desk, LoggedEvent
from pilothouse.core.errors import PilothouseError, TryLater
from pilothouse.core.event import MediaProduced
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.mcp import McpServer
from pilothouse.core.message import Address, Part, conversation_id
from pilothouse.core.text import first_line

REPLAYED_TURNS = 1000
PAGE = 100
TITLE_CHARS = 80
CURSOR = re.compile(r"[0-9]{1,9}")
MOST_NOTICES = 64

Handler = Callable[[Connection, Any, Respond], Awaitable[None]]
Past = list[tuple[Run[TurnUpdates], tuple[LoggedEvent, ...]]]


async def initialize(client: Connection, params: InitializeParams, respond: Respond) -> None:
    """Answer with our version, whichever the client speaks: it decides whether it goes on."""
    client.able = params.client_capabilities or client.able
    client.is_greeted = True
    await respond(
        InitializeResult(PROTOCOL, Implementation("pilothouse", client.setup.version, "Pilothouse"))
    )


def _folder(cwd: str) -> Path:
    try:
        folder = Path(cwd).resolve()
        if Path(cwd).is_absolute() and folder.is_dir():
            return folder
    except (OSError, ValueError):  # too long, or with a NUL
        pass
    text = f"The working directory {cwd[:100]!r} is not an absolute path to a folder that exists."
    raise RequestError(INVALID_PARAMS, text)


async def _keep_servers(client: Connection, address: Address, servers: Mapping[str, McpServer]) -> None:
    """Use the editor's MCP servers in a session. Other people write to those of chat platforms: there they never count."""
    if address.channel in LOCAL:
        await client.setup.keep_servers(conversation_id(address), servers)
    elif servers:
        client.host.log("acp.mcp_servers_ignored", level="warning", servers=list(servers))


async def new_session(client: Connection, params: NewSessionParams, respond: Respond) -> None:
    folder, servers = _folder(params.cwd), read_servers(params.mcp_servers)
    address = Address(ACP, str(folder), client.setup.new_id())
    await client.setup.bind(address, folder)
    await _keep_servers(client, address, servers)
    session = await client.open(address, folder)
    state = await modes_of(client, session), await options_of(client, session)
    await respond(NewSession(session.feed.session_id, *state))
    await tell_commands(client, session)


async def _open(client: Connection, params: OpenSessionParams) -> OpenSession:
    """Open a stored session. It stays in its own folder, whichever one the client names."""
    folder, servers = _folder(params.cwd), read_servers(params.mcp_servers)
    known = await client.find(params.session_id)
    await _keep_servers(client, known.address, servers)
    return await client.open(known.address, Path(known.workspace) if known.workspace else folder)


async def _respond_open(client: Connection, session: OpenSession, respond: Respond) -> None:
    await respond(SessionState(await modes_of(client, session), await options_of(client, session)))
    await tell_commands(client, session)


async def load_session(client: Connection, params: OpenSessionParams, respond: Respond) -> None:
    """Replay the session, then answer; live updates continue after it."""
    session = await _open(client, params)

    async def show(past: Past, omitted: int) -> None:
        session.spent = 0.0
        for run, rows in past:
            if run.said:
                await client.update(session.feed, UserChunk(TextBlock(run.said)))
            await _replay(client, session, run, rows)

    await session.feed.replay(REPLAYED_TURNS, show)
    await _respond_open(client, session, respond)


async def _replay(
    client: Connection, session: OpenSession, run: Run[TurnUpdates], rows: tuple[LoggedEvent, ...]
) -> None:
    run.state.cwd, run.state.spent_before = str(session.folder), session.spent
    for row in rows:
        for update in run.state.feed(row):
            await client.update(session.feed, update)
        if isinstance(row.event, MediaProduced):
            await client.show_file(session.feed, row.event.attachment)
    if run.state.end is not None:
        session.spent += run.state.cost_usd


async def resume_session(client: Connection, params: OpenSessionParams, respond: Respond) -> None:
    await _respond_open(client, await _open(client, params), respond)


async def close_session(client: Connection, params: SessionParams, respond: Respond) -> None:
    """Stop what the client's prompts do, and follow the session no longer. It stays stored."""
    session = client.opened(params.session_id)
    await client.cancel(session)
    for prompt in list(session.prompts):
        await prompt.done.wait()
    client.close(session)
    await _keep_servers(client, session.feed.address, {})
    await respond(Nothing())


async def list_sessions(client: Connection, params: ListSessionsParams, respond: Respond) -> None:
    """List sessions of every surface, last used first, in pages."""
    if params.cursor and not CURSOR.fullmatch(params.cursor):
        raise RequestError(INVALID_PARAMS, f"The cursor {params.cursor[:50]!r} is not one of ours.")
    start = int(params.cursor or 0)
    places = await client.desk.query("places", client.setup.author)
    folder = str(_folder(params.cwd)) if params.cwd else ""
    found = [place for place in places if place.workspace and folder in ("", place.workspace)]
    rows = tuple(
        SessionInfo(
            place.conversation.id,
            place.workspace,
            first_line(place.last_said, TITLE_CHARS),
            datetime.fromtimestamp(place.used_at, UTC).isoformat(),
        )
        for place in found[start : start + PAGE]
    )
    await respond(Sessions(rows, str(start + PAGE) if len(found) > start + PAGE else None))


async def take_prompt(client: Connection, params: PromptParams, respond: Respond) -> None:
    """Store the prompt as a message, and answer when its turn has ended."""
    session = client.opened(params.session_id)
    if session.feed.address.channel not in LOCAL:
        text = f"This session belongs to {session.feed.address.channel}: it can be read here. Write there."
        raise RequestError(INVALID_PARAMS, text)
    session.prompts.append(prompt := Prompt(anyio.Event()))
    try:
        said = await read_prompt(client.host.blobs, params.prompt)
        async with session.feed.lock:
            receipt = await client.runs.start(session.feed, said)
            if receipt.message_id is None:
                raise RequestError(INTERNAL, receipt.text or "The message was refused.")
            prompt.run_id = receipt.message_id
        title = first_line(said.text, TITLE_CHARS)
        await client.update(session.feed, InfoUpdate(title, datetime.now(UTC).isoformat()))
        if prompt.is_cancelled:
            await client.runs.stop(session.feed, prompt.run_id)
        await respond(PromptResult(await client.end_of(session, prompt)))
    finally:
        session.prompts.remove(prompt)


async def change_mode(client: Connection, params: SetModeParams, respond: Respond) -> None:
    session = client.opened(params.session_id)
    await set_mode(client, session, params.mode_id)
    await respond(Nothing())
    await tell_options(client, session)


async def change_option(client: Connection, params: SetOptionParams, respond: Respond) -> None:
    session = client.opened(params.session_id)
    await set_option(client, session, params.config_id, params.value)
    await respond(ConfigOptions(await options_of(client, session)))


class Method(Struct, frozen=True):
    params: type[Struct]
    handler: Handler


METHODS: Mapping[str, Method] = {
    "initialize": Method(InitializeParams, initialize),
    "session/new": Method(NewSessionParams, new_session),
    "session/load": Method(OpenSessionParams, load_session),
    "session/resume": Method(OpenSessionParams, resume_session),
    "session/close": Method(SessionParams, close_session),
    "session/list": Method(ListSessionsParams, list_sessions),
    "session/prompt": Method(PromptParams, take_prompt),
    "session/set_mode": Method(SetModeParams, change_mode),
    "session/set_config_option": Method(SetOptionParams, change_option),
}


async def serve(client: Connection, request: Request, respond: Respond) -> None:
    method = METHODS.get(request.method)
    if method is None:
        raise RequestError(METHOD_NOT_FOUND, f"There is no method {request.method[:100]!r}.")
    if not client.is_greeted and request.method != "initialize":
        raise RequestError(INVALID_REQUEST, f"Call initialize before {request.method}.")
    await method.handler(client, read_params(request.params, method.params), respond)


async def hear(client: Connection, told: Notification) -> None:
    """Take a notification. One that is not understood is ignored, as the protocol wants it."""
    if told.method != "session/cancel":
        return
    try:
        params = read_params(told.params, SessionParams)
        await client.cancel(client.opened(params.session_id))
    except (RequestError, PilothouseError) as error:
        client.host.log("acp.cancel_failed", level="warning", error=str(error))


class Note(Struct, frozen=True):
    session: OpenSession
    text: str


class AcpServer:
    def __init__(self, setup: AcpSetup, host: ChannelHost, reader: FrameReader, writer: FrameWriter) -> None:
        self._setup = setup
        self._host = host
        self._reader = reader
        self._writer = writer
        self._client: Connection | None = None
        self._told, self._notes = anyio.create_memory_object_stream[Note](MOST_NOTICES)

    def conversations(self) -> tuple[ConversationId, ...]:
        """The conversations of ours that the client opened."""
        open_ = self._client.sessions.values() if self._client is not None else ()
        return tuple(one.feed.conversation for one in open_ if one.feed.address.channel == ACP)

    async def run(self, desk: Desk) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                client = self._client = Connection(self._setup, self._host, desk, self._writer, tasks)
                tasks.start_soon(client.runs.watch)
                tasks.start_soon(client.asks.watch)
                tasks.start_soon(self._send_notes, client)
                server = StdioServer(
                    self._writer,
                    client.requests,
                    partial(serve, client),
                    partial(hear, client),
                    first="initialize",
                    log=self._host.log,
                    failure=INTERNAL,
                    busy=INTERNAL,
                )
                await server.run(self._reader, tasks)
                await server.finish()
                with anyio.move_on_after(DISCONNECT_S):
                    await client.runs.begin_all()
                tasks.cancel_scope.cancel()
        except* BrokenPipeError:
            self._host.log("acp.client_gone")

    async def part(self, address: Address, part: Part) -> None:
        """Take a delivered message. The log already showed what belongs to a turn."""
        client = self._client
        session = client.sessions.get(conversation_id(address)) if client is not None else None
        if client is None or session is None:
            raise TryLater(1.0, "no client has this session open")
        if ask_id := part.data.get("ask_id"):
            await client.show_ask(AskId(ask_id))
            return
        reply_to = part.data.get("reply_to") or ""
        if (
            part.data.get("turn_id")
            or reply_to in client.quiet
            or client.runs.take_reply(reply_to, part.text)
        ):
            return
        try:
            self._told.send_nowait(Note(session, part.text))
        except anyio.WouldBlock:
            raise TryLater(1.0, "the client does not read") from None

    async def _send_notes(self, client: Connection) -> None:
        async for note in self._notes:
            await client.update(note.session.feed, AgentChunk(TextBlock(f"{note.text}\n")))
