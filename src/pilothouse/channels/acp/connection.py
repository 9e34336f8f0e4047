"""One client: the sessions that it opened, its prompts, and the asks that it shows. The face of each session's feed.

A session's id is that of its conversation, so every client of this machine names it alike. A prompt is answered after
the last update of its turn.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import anyio
import anyio.abc
from msgspec import Struct

from pilothouse.channels.acp.dialogs import AskPlace, decide, open_requests
from pilothouse.channels.acp.translate import TurnUpdates
from pilothouse.channels.acp.updates import AgentChunk, Update, UserChunk
from pilothouse.channels.acp.wire import (
    INTERNAL,
    RESOURCE_NOT_FOUND,
    UPDATE,
    ClientAbilities,
    ImageBlock,
    StopReason,
    TextBlock,
    UpdateParams,
)
from pilothouse.channels.client_runs import IMAGE_TYPES, ClientRuns, End, ShownAsks, Waiting
from pilothouse.channels.request_errors import RequestError
from pilothouse.channels.session_feed import Run, SessionFeed
from pilothouse.channels.stdio_frames import FrameWriter
from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.channel import ChannelHost, Desk, LoggedEvent
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import AskChanged, Asked, MediaProduced, TurnEnded
from pilothouse.core.ids import AskId, ChannelId, ConversationId
from pilothouse.core.mcp import McpServer
from pilothouse.core.message import Address, Attachment, Author, conversation_id

ACP = ChannelId("acp")
MAX_IMAGE_BYTES = 8 * 1024 * 1024
Feed = SessionFeed[TurnUpdates]


class AcpSetup(Struct, frozen=True):
    """The channel's settings from the command. `bind` binds a session's conversation to a folder; `pick_mode` stores the
    approval mode that a person chose for a folder, and returns why it cannot; empty if it did. `keep_servers` makes a
    session use the editor's MCP servers."""

    author: Author
    version: str
    bind: Callable[[Address, Path], Awaitable[None]]
    pick_mode: Callable[[Path, str], Awaitable[str]]
    keep_servers: Callable[[ConversationId, Mapping[str, McpServer]], Awaitable[None]]
    new_id: Callable[[], str]


class Prompt(Struct, eq=False):
    """A prompt whose answer the client waits for."""

    done: anyio.Event
    run_id: str = ""
    is_cancelled: bool = False
    stop: StopReason = "end_turn"
    problem: str = ""


class OpenSession(Struct, eq=False):
    """A session that the client opened. `spent` is what its ended turns cost."""

    feed: Feed
    folder: Path
    scope: anyio.CancelScope
    prompts: list[Prompt]
    spent: float = 0.0

    def prompt_of(self, run_id: str) -> Prompt | None:
        return next((one for one in self.prompts if one.run_id == run_id), None)


class Connection:
    def __init__(
        self,
        setup: AcpSetup,
        host: ChannelHost,
        desk: Desk,
        writer: FrameWriter,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self.setup = setup
        self.host = host
        self.desk = desk
        self.able = ClientAbilities()
        self.is_greeted = False
        self.requests = open_requests(writer)
        self.sessions: dict[ConversationId, OpenSession] = {}
        self.runs = ClientRuns(desk, host, setup.author, setup.new_id, "acp", self._end_without_turn)
        self.asks = ShownAsks(desk, host, setup.author, tasks, self._decide, self._is_own)
        self.quiet: set[str] = set()
        """Ids of commands whose replies answer a request, and are not shown."""
        self._writer = writer
        self._tasks = tasks
        self._opening = anyio.Lock()

    # Sessions.

    async def find(self, session_id: str) -> Conversation:
        """Return the conversation of a stored session."""
        id = ConversationId(session_id)
        known = await self.desk.query("conversation", self.setup.author, id=id) if ":" in session_id else None
        if known is None:
            raise RequestError(RESOURCE_NOT_FOUND, f"There is no session {session_id!r}.")
        return known

    def opened(self, session_id: str) -> OpenSession:
        session = self.sessions.get(ConversationId(session_id))
        if session is None:
            text = (
                f"The session {session_id!r} is not open. Call session/new, session/load or session/resume."
            )
            raise RequestError(RESOURCE_NOT_FOUND, text)
        return session

    async def open(self, address: Address, folder: Path) -> OpenSession:
        """Follow a session from now on."""
        async with self._opening:
            id = conversation_id(address)
            if session := self.sessions.get(id):
                return session
            feed = SessionFeed(self.desk, self.host.clock, self.setup.author, id, address, self)
            session = OpenSession(feed, folder, anyio.CancelScope(), [])
            await feed.catch_up()
            self.sessions[id] = session
            for run in feed.runs.values():
                self._settle_in(feed, run)
            self._tasks.start_soon(self._follow, session)
            for row in await feed.query("asks", conversation=id):
                await self._show_row(row)
            return session

    async def _follow(self, session: OpenSession) -> None:
        with session.scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.feed.watch_asks, self._show_row)
                await session.feed.follow()

    def close(self, session: OpenSession) -> None:
        session.scope.cancel()
        if self.sessions.get(session.feed.conversation) is session:  # another request may have closed it
            del self.sessions[session.feed.conversation]

    async def update(self, feed: Feed, update: Update) -> None:
        await self._writer.notify(UPDATE, UpdateParams(feed.session_id, update))

    # The face of a feed.

    def new_state(self) -> TurnUpdates:
        return TurnUpdates("", has_notices=self.able.has_notices)

    def absorb(self, run: Run[TurnUpdates], row: LoggedEvent) -> None:
        run.state.feed(row)

    async def announce(self, feed: Feed, run: Run[TurnUpdates]) -> None:
        """A turn begins. The client shows its own prompts itself; those of other surfaces are told."""
        self._settle_in(feed, run)
        self.runs.waiting.pop(run.id, None)
        if run.id not in self.runs.own and run.said:
            await self.update(feed, UserChunk(TextBlock(run.said)))

    async def show(self, feed: Feed, run: Run[TurnUpdates], row: LoggedEvent) -> None:
        for update in run.state.feed(row):
            await self.update(feed, update)
        match row.event:
            case MediaProduced(attachment=file):
                await self.show_file(feed, file)
            case TurnEnded():
                if session := self.sessions.get(feed.conversation):
                    session.spent += run.state.cost_usd
            case _:
                pass
        await self._take_effect(feed, run, row)

    async def pass_over(self, feed: Feed, run: Run[TurnUpdates], row: LoggedEvent) -> None:
        await self._take_effect(feed, run, row)

    async def _take_effect(self, feed: Feed, run: Run[TurnUpdates], row: LoggedEvent) -> None:
        match row.event:
            case Asked(ask=ask):
                place = AskPlace(feed.session_id, run.turn_id, run.id, run.state.call_of(ask))
                self.asks.show(ask, place)
            case AskChanged(ask_id=id):
                await self.asks.close(id)
            case TurnEnded():
                self._end(feed, run, row.event)
            case _:
                pass

    def _settle_in(self, feed: Feed, run: Run[TurnUpdates]) -> None:
        session = self.sessions.get(feed.conversation)
        if session is not None:
            run.state.cwd = str(session.folder)
            run.state.spent_before = session.spent

    def _end(self, feed: Feed, run: Run[TurnUpdates], end: TurnEnded) -> None:
        self.runs.forget(run.id)
        session = self.sessions.get(feed.conversation)
        if session is None:
            return
        if prompt := session.prompt_of(run.id):
            prompt.stop = "cancelled" if end.outcome == "cancelled" else "end_turn"
            if end.failure is not None:
                fix = f" {end.failure.fix}." if end.failure.fix else ""
                prompt.problem = f"{end.failure.text}{fix}"
            prompt.done.set()

    async def show_file(self, feed: Feed, file: Attachment) -> None:
        """Show an image that the engine made; name any other file."""
        if file.media_type in IMAGE_TYPES and file.size <= MAX_IMAGE_BYTES:
            try:
                data = await self.host.blobs.get(file.blob)
            except PilothouseError as error:
                self.host.log("acp.file_lost", level="warning", file=file.name, error=str(error))
            else:
                image = ImageBlock(base64.b64encode(data).decode(), file.media_type)
                await self.update(feed, AgentChunk(image))
                return
        await self.update(feed, AgentChunk(TextBlock(f"\n[{file.name}, {file.size} bytes]\n")))

    # Runs without a turn.

    async def _end_without_turn(self, run_id: str, waiting: Waiting[TurnUpdates], end: End) -> None:
        if waiting.reply and end != "error":
            await self.update(waiting.feed, AgentChunk(TextBlock(waiting.reply)))
        session = self.sessions.get(waiting.feed.conversation)
        prompt = session.prompt_of(run_id) if session is not None else None
        if prompt is not None:
            prompt.stop = "cancelled" if end == "cancelled" else "end_turn"
            prompt.problem = (waiting.reply or "The message was refused.") if end == "error" else ""
            prompt.done.set()

    # Asks.

    async def _show_row(self, row: AskRow) -> None:
        """Show a stored ask that is open."""
        session = self.sessions.get(row.conversation_id)
        if session is None:
            return
        run = session.feed.runs.get(row.caller)
        call = run.state.call_of(row.ask) if run is not None else None
        place = AskPlace(session.feed.session_id, row.caller, run.id if run is not None else "", call)
        self.asks.show(row.ask, place)

    async def show_ask(self, id: AskId) -> None:
        """Show an ask that was delivered as a message: those of Pilothouse itself belong to no turn."""
        row = await self.desk.query("ask", self.setup.author, id=id)
        if row is not None and row.state == "open" and row.topic:
            await self._show_row(row)

    async def _decide(self, ask: Ask, place: AskPlace) -> Decision | None:
        return await decide(self.requests, self.able, ask, place)

    def _is_own(self, place: AskPlace) -> bool:
        return place.run_id in self.runs.own

    # Prompts.

    async def end_of(self, session: OpenSession, prompt: Prompt) -> StopReason:
        """Wait for the end of a prompt. Raises `RequestError` if its turn failed."""
        await prompt.done.wait()
        if prompt.problem:
            raise RequestError(INTERNAL, prompt.problem)
        return prompt.stop

    async def cancel(self, session: OpenSession) -> None:
        """Stop the prompts of a session, also those that were not accepted yet."""
        for prompt in session.prompts:
            prompt.is_cancelled = True
            if prompt.run_id:
                await self.runs.stop(session.feed, prompt.run_id)
