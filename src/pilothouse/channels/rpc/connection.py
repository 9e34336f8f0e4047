"""One client: what it can show, the sessions that it opened, and the runs that it waits for. The face of each session's feed.

Order of frames of a run: the answer to `run.start`, `run.status running`, its events, and `run.status` with its end. A
preview and `permission.ready` are written before the confirm that they belong to.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.abc
from msgspec import Struct

from pilothouse.channels.client_runs import ClientRuns, End, ShownAsks, Waiting
from pilothouse.channels.request_errors import RequestError
from pilothouse.channels.rpc.diagnostics import Diagnostics, ReadCalls
from pilothouse.channels.rpc.dialogs import decide, open_dialogs
from pilothouse.channels.rpc.events import AgentEvent, Final, HiddenUserMessage
from pilothouse.channels.rpc.notifications import (
    AgentEventParams,
    RunContextParams,
    RunStatusParams,
    RunUpdateParams,
)
from pilothouse.channels.rpc.params import UiCapabilities, UiContext
from pilothouse.channels.rpc.protocol import SESSION_NOT_FOUND
from pilothouse.channels.rpc.translate import RunStatus, RunTranslator, context_left, update_of
from pilothouse.channels.session_feed import Run, SessionFeed, query_desk
from pilothouse.channels.stdio_frames import FrameWriter
from pilothouse.channels.stdio_server import CLOSE_S
from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.channel import ChannelHost, Desk, LoggedEvent
from pilothouse.core.event import AskChanged, Asked, EngineEvent, ToolFinished, TurnEnded, UsageChanged
from pilothouse.core.ids import AskId, ChannelId, ConversationId
from pilothouse.core.message import Address, Author, conversation_id

RPC = ChannelId("rpc")
Feed = SessionFeed[RunTranslator]


class RpcSetup(Struct, frozen=True):
    """The channel's settings from the command. `bind` binds a session's conversation to the folder; `pick_mode` stores the
    approval mode of the folder, and is None where one is chosen already."""

    folder: Path
    author: Author
    defaults: Defaults
    version: str
    bind: Callable[[Address], Awaitable[object]]
    run_shell: Callable[[str, Path, float], Awaitable[ShellEnd]]
    new_id: Callable[[], str]
    list_mcp: Callable[[], Awaitable[Sequence[tuple[Any, ...]]]]
    """Rows of `McpServerRow`."""
    compact_lines: Mapping[str, str] = {}
    """By engine, the message that makes a session compact its history."""
    providers: Mapping[str, Sequence[str]] = {}
    """By engine, the providers of its models."""
    tool_lines: Mapping[str, str] = {}
    """By engine, the first word of a message that calls one of its tools."""
    log_outs: Mapping[str, Callable[[], Awaitable[tuple[Sequence[str], str]]]] = {}
    """By engine, what removes its keys: names what was removed, and the model that a key elsewhere still serves."""
    read_calls: ReadCalls | None = None
    """Reads the requests of a turn to its model; None without diagnostics."""
    pick_mode: Callable[[str], Awaitable[None]] | None = None
    on_disconnect: Literal["finish", "cancel"] = "finish"
    home: Path = Path("/")


class Defaults(Struct):
    """Engine and model of the command line: new sessions get them until `model.set` chooses."""

    engine: str = ""
    model: str = ""


class ShellEnd(Struct, frozen=True):
    """The end of a shell command. `problem` says why it was stopped or did not start."""

    stdout: bytes
    stderr: bytes
    exit_code: int | None
    duration_s: float
    problem: str = ""


class ToolWait(Struct):
    """A `tool.call` that waits for its run. `problem` is None if the run completed, and empty if it was cancelled."""

    done: anyio.Event
    is_ok: bool = False
    text: str = ""
    problem: str | None = None

    def note(self, event: EngineEvent) -> None:
        match event:
            case ToolFinished(ok=ok):
                self.is_ok = ok
            case TurnEnded(outcome=outcome, answer=answer, failure=failure):
                self.text = answer
                if outcome != "completed":
                    self.problem = failure.text if failure else ""
                self.done.set()
            case _:
                pass


class Connection:
    def __init__(
        self,
        setup: RpcSetup,
        host: ChannelHost,
        desk: Desk,
        writer: FrameWriter,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self.setup = setup
        self.host = host
        self.desk = desk
        self.writer = writer
        self.tasks = tasks
        self.dialogs = open_dialogs(writer)
        self.runs = ClientRuns(desk, host, setup.author, setup.new_id, "rpc", self._end_without_turn)
        self.asks = ShownAsks(
            desk, host, setup.author, tasks, self._decide, lambda run_id: run_id in self.runs.own
        )
        self.able: UiCapabilities | None = None
        self.ui_context: UiContext | None = None
        self.feeds: dict[ConversationId, Feed] = {}
        self.pick_mode = setup.pick_mode
        self.starting = anyio.Lock()
        self.calling = anyio.Lock()
        self.calls: dict[str, ToolWait] = {}
        self.call_session: str | None = None
        self.diagnostics = Diagnostics(writer, setup.read_calls) if setup.read_calls else None
        self._opening = anyio.Lock()

    # Sessions.

    def address_of(self, session_id: str) -> Address:
        return Address(RPC, str(self.setup.folder), session_id)

    def name_of(self, address: Address) -> str:
        """Return the client's name for a conversation: the thread of ours in this folder, else the conversation's id."""
        here = address.channel == RPC and address.place == str(self.setup.folder)
        return address.thread if here and address.thread else conversation_id(address)

    async def find(self, session_id: str) -> Address:
        """Return the address of a stored session."""
        id = ConversationId(session_id) if ":" in session_id else conversation_id(self.address_of(session_id))
        known = await self.desk.query("conversation", self.setup.author, id=id) if session_id else None
        if known is None:
            raise RequestError(
                SESSION_NOT_FOUND, f"There is no session {session_id!r}. `session.list` lists them."
            )
        return known.address

    async def open(self, address: Address) -> Feed:
        """Follow a session from now on."""
        async with self._opening:
            conversation = conversation_id(address)
            if feed := self.feeds.get(conversation):
                return feed
            name = self.name_of(address)
            feed = SessionFeed(self.desk, self.host.clock, self.setup.author, name, address, self)
            await feed.catch_up()
            self.feeds[conversation] = feed
            self.tasks.start_soon(feed.follow)
            for row in await feed.query("asks", conversation=conversation):
                await self._show_row(row)
            self.tasks.start_soon(feed.watch_asks, self._show_row)
            return feed

    # The face of a feed.

    def new_state(self) -> RunTranslator:
        return RunTranslator()

    def absorb(self, run: Run[RunTranslator], row: LoggedEvent) -> None:
        run.state.feed(row)

    async def announce(self, feed: Feed, run: Run[RunTranslator]) -> None:
        self.runs.waiting.pop(run.id, None)
        if run.id not in self.runs.own:
            self.runs.active[run.id] = feed
            await self.status(feed, run.id, "running")
            await self.event(feed, run.id, -1, HiddenUserMessage(run.said))

    async def show(self, feed: Feed, run: Run[RunTranslator], row: LoggedEvent) -> None:
        before = run.state.status
        numbered = run.state.feed(row)
        told = [AgentEventParams(run.id, feed.session_id, one.seq, one.event) for one in numbered]
        await self.writer.notify_all("agent.event", told)
        if self.able is not None and self.able.supports_run_updates and (update := update_of(row.event)):
            after = run.state.next_seq - 1
            await self.writer.notify("run.update", RunUpdateParams(run.id, feed.session_id, after, update))
        await self._take_effect(feed, run, row, is_changed=run.state.status != before)

    async def pass_over(self, feed: Feed, run: Run[RunTranslator], row: LoggedEvent) -> None:
        is_end = isinstance(row.event, TurnEnded)
        if is_end:  # a run that ended outside of the replayed ones has no status yet
            run.state.feed(row)
        await self._take_effect(feed, run, row, is_changed=is_end and run.id in self.runs.active)

    async def _take_effect(
        self, feed: Feed, run: Run[RunTranslator], row: LoggedEvent, *, is_changed: bool
    ) -> None:
        await self._tell_context(run, row)
        if self.diagnostics is not None and isinstance(row.event, UsageChanged | TurnEnded):
            await self._diagnose(self.diagnostics, feed, run, row)
        if isinstance(row.event, AskChanged):
            await self.asks.close(row.event.ask_id)
        if isinstance(row.event, TurnEnded):
            await self.asks.close_settled()
        if is_changed:
            await self._changed(feed, run)
        if wait := self.calls.get(run.id):
            wait.note(row.event)
        if isinstance(row.event, Asked):
            self.show_ask(run.id, row.event.ask)

    async def _tell_context(self, run: Run[RunTranslator], row: LoggedEvent) -> None:
        left = context_left(row.event)
        if left is not None and left != run.state.context_left:
            run.state.context_left = left
            await self.writer.notify("run.context", RunContextParams(run.id, left))

    async def _changed(self, feed: Feed, run: Run[RunTranslator]) -> None:
        await self.status(feed, run.id, run.state.status, run.state.message)
        if run.state.ended:
            self.runs.forget(run.id)

    async def _diagnose(
        self, tells: Diagnostics, feed: Feed, run: Run[RunTranslator], row: LoggedEvent
    ) -> None:
        facts = await feed.query("turn", id=run.turn_id)
        if facts is None:
            return
        if isinstance(row.event, TurnEnded):
            usage, events = row.event.usage or run.state.usage, run.state.next_seq
            await tells.tell_sums(run.id, facts.turn, usage, row.at, events)
        else:
            await tells.tell_calls(run.id, facts.turn)

    async def event(self, feed: Feed, run_id: str, seq: int, event: AgentEvent) -> None:
        await self.writer.notify("agent.event", AgentEventParams(run_id, feed.session_id, seq, event))

    async def status(self, feed: Feed, run_id: str, status: RunStatus, message: str = "") -> None:
        await self.writer.notify("run.status", RunStatusParams(run_id, feed.session_id, status, message))

    # Runs without a turn.

    async def _end_without_turn(self, run_id: str, waiting: Waiting[RunTranslator], end: End) -> None:
        if end == "completed":
            await self.event(waiting.feed, run_id, 0, Final(waiting.reply))
        await self.status(waiting.feed, run_id, end, "" if end == "completed" else waiting.reply)
        if wait := self.calls.get(run_id):
            wait.problem = "" if end == "cancelled" else waiting.reply or "The call was refused."
            wait.done.set()

    # Asks.

    def show_ask(self, run_id: str, ask: Ask) -> None:
        if self.able is not None:
            self.asks.show(ask, run_id)

    async def show_app_ask(self, id: AskId) -> None:
        """Show an ask of Pilothouse itself, which is delivered as a message because no log has it."""
        row = await self.desk.query("ask", self.setup.author, id=id)
        if row is not None and row.state == "open" and row.topic:
            await self._show_row(row)

    async def _show_row(self, row: AskRow) -> None:
        desk, clock, author = self.desk, self.host.clock, self.setup.author
        facts = await query_desk(desk, clock, author, "turn", id=row.caller) if row.caller else None
        self.show_ask(facts.run_id if facts is not None else "", row.ask)

    async def _decide(self, ask: Ask, run_id: str) -> Decision | None:
        """Ask the person. The log tells that a run waits for its own asks, but not for those of its tool calls."""
        assert self.able is not None
        feed = self.runs.active.get(run_id) if ask.of_house else None
        if feed is None:
            return await decide(self.dialogs, self.able, ask, run_id)
        await self.status(feed, run_id, "awaiting_ui")
        try:
            return await decide(self.dialogs, self.able, ask, run_id)
        finally:
            if run_id in self.runs.active:
                await self._go_on(feed, run_id)

    async def _go_on(self, feed: Feed, run_id: str) -> None:
        """Tell the status of a run from its log again."""
        run = next((run for run in feed.runs.values() if run.id == run_id), None)
        if run is not None and not run.state.ended:
            with anyio.move_on_after(CLOSE_S, shield=True), suppress(BrokenPipeError):
                await self.status(feed, run_id, run.state.status)
