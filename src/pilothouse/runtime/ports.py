"""Ports: everything that the rooms of the gateway share (store, clock, engines, channels, …). Filled by bootstrap."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import anyio

from pilothouse.core.ask import AskRow, Decision
from pilothouse.core.audit import AuditHead
from pilothouse.core.call import Call
from pilothouse.core.channel import Channel
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Brief, Engine
from pilothouse.core.errors import StoreError, StoreUnavailable
from pilothouse.core.ids import BlobHash, ChannelId, ConversationId, EngineId, IdMaker
from pilothouse.core.message import Attachment
from pilothouse.core.policy import AskAlways, Classify, Policy, all_destructive
from pilothouse.core.preview import LookAtFile, not_looked_at
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.runtime.audit import Trail
from pilothouse.runtime.settings import Briefer, Settings
from pilothouse.runtime.signals import Signals

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


async def _no_problem(engine: EngineId) -> str:
    return ""


async def _no_file(path: str, folder: str, most: int) -> tuple[str, bytes] | str:
    return "no file can be read here"


def _unchanged(conversation_id: ConversationId, brief: Brief) -> Brief:
    return brief


ReadEngineCall = Callable[[EngineId, Mapping[str, Any]], Call | None]


def no_call(engine: EngineId, payload: Mapping[str, Any]) -> Call | None:
    return None


class Ports:
    """One per gateway. `settings` is a function, because configuration may be reloaded during a turn.

    `sweep` ends processes that a killed gateway left behind.
    `note_head` writes the head of the audit log to a place outside the store.
    `engine_problem` says why an engine would not work here, and the fix; empty if it would.
    `read_call` reads the payload of an engine's ask.
    `look_at_file` reads the current file for the preview of a change.
    `read_file` reads a file below a folder, up to a limit: its relative path and content, or a reason why not.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        *,
        store: Store,
        clock: Clock,
        ids: IdMaker,
        settings: Callable[[], Settings],
        engines: Mapping[EngineId, Engine],
        channels: Mapping[ChannelId, Channel],
        brief: Briefer = _unchanged,
        topics: Topics,
        policy: Policy | None = None,
        tool_class: Classify = all_destructive,
        read_call: ReadEngineCall = no_call,
        alive: Callable[[NodeInfo], bool | None] = lambda _info: None,
        sweep: Callable[[], Awaitable[None]] = _no_sweep,
        engine_problem: Callable[[EngineId], Awaitable[str]] = _no_problem,
        look_at_file: LookAtFile = not_looked_at,
        read_file: Callable[[str, str, int], Awaitable[tuple[str, bytes] | str]] = _no_file,
        log: Log = lambda _event, **_fields: None,
        trail: Trail | None = None,
        note_head: Callable[[AuditHead, float], None] = lambda _head, _at: None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.settings = settings
        self.engines = engines
        self.channels = channels
        self.brief = brief
        self.topics = topics
        self.policy: Policy = policy or AskAlways()
        self.tool_class = tool_class
        self.read_call = read_call
        self.alive = alive
        self.sweep = sweep
        self.engine_problem = engine_problem
        self.look_at_file = look_at_file
        self.read_file = read_file
        self.log = log
        self.trail = trail or Trail()
        self.note_head = note_head
        self.signals = Signals()
        self._wall_minus_monotonic = clock.now() - clock.monotonic()

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
