"""Ports: everything that the rooms of the gateway share (store, clock, signals, engines, channels, …). Filled by bootstrap.

`Signals` are wake-ups inside one process: hints that save a poll, never a guarantee. A writer pokes the topic that it
changed, and a waiter reads the store again. To miss no poke, a waiter takes a ticket, then reads, then waits for it.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import inf
from typing import Any, Protocol, TypeVar

import anyio
from msgspec import Struct, field

from pilothouse.core.ask import AskRow, Decision
from pilothouse.core.audit import AuditHead
from pilothouse.core.call import Call
from pilothouse.core.channel import Channel
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Engine
from pilothouse.core.errors import StoreError, StoreUnavailable
from pilothouse.core.ids import BlobHash, ChannelId, ConversationId, EngineId, IdMaker, SessionId, TurnId
from pilothouse.core.lane import LaneDesk, NoLanes
from pilothouse.core.mcp import McpDesk, NoMcpDesk
from pilothouse.core.message import Attachment
from pilothouse.core.policy import AskAlways, Classify, Policy, all_destructive
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.runtime.audit import Trail
from pilothouse.runtime.engine_report import EngineReport
from pilothouse.runtime.preview import LookAtFile, not_looked_at
from pilothouse.runtime.settings import Settings

INBOX = "inbox"
OUTBOX = "outbox"
ASKS = "asks"
SCHEDULES = "schedules"
PLACES = "places"
"""The settings of some place may have changed."""
TURNS = "turns"
"""A turn began: for live views and typing indicators."""
TRANSCRIPTS = "transcripts"
"""A turn ended, or its engine forgets its beginning."""


def control_of(conversation_id: ConversationId) -> str:
    """A message, a stop or an answer in the conversation: for its running turn."""
    return f"control:{conversation_id}"


def end_of(turn_id: TurnId) -> str:
    """The turn ended in any way."""
    return f"end:{turn_id}"


def events_of(conversation_id: ConversationId) -> str:
    """The conversation's event log grew: for its followers."""
    return f"events:{conversation_id}"


class Signals:
    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def ticket(self, topic: str) -> anyio.Event:
        event = self._events.get(topic)
        if event is None:
            event = self._events[topic] = anyio.Event()
        return event

    def poke(self, *topics: str) -> None:
        for topic in topics:
            event = self._events.pop(topic, None)
            if event is not None:
                event.set()

    def poke_all(self) -> None:
        self.poke(*list(self._events))

    @staticmethod
    async def wait(ticket: anyio.Event, timeout_s: float = inf) -> None:
        with anyio.move_on_after(timeout_s):
            await ticket.wait()


ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32, without letters that look alike, because people type these ids."""


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


def new_id(prefix: str) -> str:
    """Return an id with sixty random bits, enough for any one store."""
    drawn = secrets.randbits(60)
    return f"{prefix}-{''.join([ALPHABET[drawn >> shift & 31] for shift in range(0, 60, 5)])}"


T = TypeVar("T")
Settle = Callable[[Tx, IdMaker, AskRow, Decision, float], None]
Topics = Mapping[str, Settle]
"""For each topic of the gateway's own asks: the function that carries out the answer."""

JUMP_S = 2.0
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class StoreBlobs:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def get(self, blob: BlobHash) -> bytes:
        data = await self._store.read(lambda tx: tx.blobs.get(blob))
        if data is None:
            raise StoreError(f"The attachment {blob[:12]}… is no longer stored. Send the file again.")
        return data

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        now = self._clock.now()
        return await self._store.write(lambda tx: tx.blobs.attach(data, name, media_type, now))


class Log(Protocol):
    def __call__(self, event: str, /, **fields: object) -> None: ...


async def _no_sweep() -> None:
    """The default: no engine starts processes."""


async def _no_other_engine() -> None:
    """The default: the engines stay as they are."""


async def _no_problem(engine: EngineId) -> str:
    return ""


async def _no_reports() -> Sequence[EngineReport]:
    return ()


async def _no_file(path: str, folder: str, most: int) -> tuple[str, bytes] | str:
    return "no file can be read here"


class ScriptEnd(Struct, frozen=True):
    """The end of a script. `problem` says why it did not run to its end."""

    last_line: bytes = b""
    stderr: str = ""
    exit_code: int | None = None
    problem: str = ""


async def _no_scripts(script: str, folder: str, within_s: float, most_bytes: int) -> ScriptEnd:
    return ScriptEnd(problem="no script can be run here")


async def _no_append(folder: str, name: str, size: int, data: bytes) -> int | None:
    return 0


async def _no_removal(folder: str, name: str) -> None:
    """The default: no files are kept."""


class ToolServer(Protocol):
    """Serves Pilothouse's own tools to agents."""

    def lease(self, ports: Ports, session_id: SessionId) -> AbstractContextManager[Mapping[str, Any]]:
        """Return the MCP servers for a session's brief. They serve the session at least until the context ends."""
        ...

    async def run(self, ports: Ports) -> None: ...


class NoTools:
    def lease(self, ports: Ports, session_id: SessionId) -> AbstractContextManager[Mapping[str, Any]]:
        return nullcontext({})

    async def run(self, ports: Ports) -> None: ...


async def _no_servers(workspace: str, trusted: bool) -> Mapping[str, Any]:
    return {}


ReadEngineCall = Callable[[EngineId, Mapping[str, Any]], Call | None]


def no_call(engine: EngineId, payload: Mapping[str, Any]) -> Call | None:
    return None


class Ports(Struct, kw_only=True, eq=False):
    """One per gateway. `settings` is a function, because configuration may be reloaded during a turn.

    `sweep` ends processes that a killed gateway left behind.
    `note_head` writes the head of the audit log to a place outside the store.
    `engine_problem` says why an engine would not work here, and the fix; empty if it would.
    `look_for_engine` is awaited before turns start while the demo is the default: a real engine may have appeared.
    `engine_reports` asks every enabled engine for its program and its login, which may start programs.
    `read_call` reads the payload of an engine's ask.
    `look_at_file` reads the current file for the preview of a change.
    `run_script` runs a script of a schedule in a folder, through the launcher of everything that agents run.
    `redact` removes known secrets from a text that is about to be shown in a chat.
    `append_file` cuts a transcript's file in a workspace to a size, appends to it and returns its new size; None if it is
    smaller. With size 0 it replaces the file. `remove_file` deletes one.
    `mcp_servers` returns the configured MCP servers of a workspace, as `Brief.mcp_servers` has them; `client_servers`
    those that an editor sent with a session; `preferences` the tables of the workspace's file. `mcp` reports on those servers, and logs in to them. `lanes` makes worktrees for agents.
    `read_file` reads a file below a folder, up to a limit: its relative path and content, or a reason why not.
    """

    store: Store
    clock: Clock
    ids: IdMaker
    settings: Callable[[], Settings]
    engines: Mapping[EngineId, Engine]
    channels: Mapping[ChannelId, Channel]
    topics: Topics
    policy: Policy = field(default_factory=AskAlways)
    tool_class: Classify = all_destructive
    read_call: ReadEngineCall = no_call
    alive: Callable[[NodeInfo], bool | None] = lambda _info: None
    sweep: Callable[[], Awaitable[None]] = _no_sweep
    engine_problem: Callable[[EngineId], Awaitable[str]] = _no_problem
    engine_reports: Callable[[], Awaitable[Sequence[EngineReport]]] = _no_reports
    look_for_engine: Callable[[], Awaitable[None]] = _no_other_engine
    look_at_file: LookAtFile = not_looked_at
    read_file: Callable[[str, str, int], Awaitable[tuple[str, bytes] | str]] = _no_file
    run_script: Callable[[str, str, float, int], Awaitable[ScriptEnd]] = _no_scripts
    append_file: Callable[[str, str, int, bytes], Awaitable[int | None]] = _no_append
    remove_file: Callable[[str, str], Awaitable[None]] = _no_removal
    mcp_servers: Callable[[str, bool], Awaitable[Mapping[str, Any]]] = _no_servers
    client_servers: Callable[[ConversationId], Mapping[str, Any]] = lambda _id: {}
    preferences: Callable[[str, bool], Awaitable[Mapping[str, Any]]] = _no_servers
    mcp: McpDesk = field(default_factory=NoMcpDesk)
    lanes: LaneDesk = field(default_factory=NoLanes)
    redact: Callable[[str], str] = str
    log: Log = lambda _event, **_fields: None
    trail: Trail = field(default_factory=Trail)
    note_head: Callable[[AuditHead, float], None] = lambda _head, _at: None
    tools: ToolServer = field(default_factory=NoTools)
    signals: Signals = field(default_factory=Signals)
    _wall_minus_monotonic: float = 0.0

    def __post_init__(self) -> None:
        self._wall_minus_monotonic = self.clock.now() - self.clock.monotonic()

    def jumped_s(self) -> float:
        """Seconds by which the wall clock jumped against the monotonic one, until `accept_jump`; else 0."""
        moved = self.clock.now() - self.clock.monotonic() - self._wall_minus_monotonic
        return moved if abs(moved) > JUMP_S else 0.0

    def accept_jump(self, seconds: float) -> None:
        """Times in the store were shifted by `seconds`, so the jump no longer matters."""
        self._wall_minus_monotonic += seconds

    async def persist(self, unit: Callable[[Tx], T]) -> T:
        """Write, and retry while the store is unavailable (full disk, locked database), however long it takes.

        Only for bookkeeping of events that already happened; a person's request is refused instead, so that they know.
        A cancellation waits for a write under way: if this raises, nothing was written.
        """
        return await self._wait_out("write", partial(self._write_whole, unit))

    async def read(self, unit: Callable[[Tx], T]) -> T:
        """Read, and retry while the store is unavailable."""
        return await self._wait_out("read", partial(self.store.read, unit))

    async def _write_whole(self, unit: Callable[[Tx], T]) -> T:
        with anyio.CancelScope(shield=True):
            return await self.store.write(unit)
        raise AssertionError("unreachable")

    async def _wait_out(self, action: str, act: Callable[[], Awaitable[T]]) -> T:
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return await act()
            except StoreUnavailable as error:
                self.log(f"store.{action}_postponed", level="warning", error=str(error), pause_s=pause_s)
                await anyio.sleep(pause_s)
                pause_s = min(LONGEST_PAUSE_S, pause_s * 2)
