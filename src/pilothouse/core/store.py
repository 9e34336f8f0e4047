"""Port: the store, and the nodes that share it. A node that was `fence`d can write nothing: every `write` checks it first.

`write(unit)` runs `unit(tx)` as one transaction and returns when it is durable; if the unit raises, nothing of it
was written. A unit is plain, quick, synchronous code that touches nothing but its `tx`: stores may run it on
another thread, and may commit several units together. `read(unit)` sees one consistent state. The protocol of each
table stands in the file of its rows, such as `queue.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Struct

from pilothouse.core.ask import Asks
from pilothouse.core.audit import Audit
from pilothouse.core.budget import Spending
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Conversations, Sessions
from pilothouse.core.event import EngineEvent
from pilothouse.core.ids import BlobHash, ConversationId, Epoch, TurnId
from pilothouse.core.message import Attachment
from pilothouse.core.people import PeopleTable
from pilothouse.core.policy import Rules
from pilothouse.core.queue import InboxQueue, OutboxQueue
from pilothouse.core.schedule import Schedules
from pilothouse.core.transcript import Transcripts
from pilothouse.core.turn import Turns

Role = Literal["engines", "channels", "scheduler"]
"""`channels` is the role of a node that serves configured channels: a terminal chat does not have it."""

T = TypeVar("T")


class NodeInfo(Struct, frozen=True):
    """Identifies a process well enough to tell, on its own host, whether it still lives."""

    name: str
    host: str
    pid: int
    started: str
    """The kernel's start time of the process, which tells it from another with the same pid."""


class Node(Struct, frozen=True):
    epoch: Epoch
    info: NodeInfo
    roles: tuple[Role, ...]
    lease_until: float
    beats: int
    fenced: bool


class Nodes(Protocol):
    def join(self, info: NodeInfo, roles: Sequence[Role], lease_until: float) -> Epoch:
        """Register a node; this store writes as that node from now on."""
        ...

    def beat(self, lease_until: float) -> None: ...

    def add_role(self, role: Role) -> None:
        """Raises `RoleHeld` while another node that was not fenced has the role `engines`."""
        ...

    def leave(self) -> None:
        """Give up every role and fence this node: this store can no longer write."""
        ...

    def claimants(self) -> list[Epoch]:
        """Nodes that were fenced, or left, and still hold claims or live turns that must be recovered."""
        ...

    def list(self) -> list[Node]:
        """Nodes that are not fenced, oldest first."""
        ...

    def get(self, epoch: Epoch) -> Node | None: ...

    def fence(self, epoch: Epoch) -> None: ...


class Events(Protocol):
    def append(
        self, conversation_id: ConversationId, turn_id: TurnId, events: Sequence[EngineEvent], at: float
    ) -> int:
        """Append under the next sequence numbers of the conversation; return the last one."""
        ...

    def after(self, conversation_id: ConversationId, seq: int, *, limit: int = 500) -> list[LoggedEvent]: ...

    def last_seq(self, conversation_id: ConversationId) -> int: ...

    def of_turn(self, turn_id: TurnId, *, limit: int = 100_000) -> list[LoggedEvent]: ...


class BlobTable(Protocol):
    def put(self, data: bytes, media_type: str, at: float) -> BlobHash: ...

    def get(self, blob: BlobHash) -> bytes | None: ...

    def attach(self, data: bytes, name: str, media_type: str, at: float) -> Attachment: ...


class Tx(Protocol):
    """One transaction over all tables."""

    conversations: Conversations
    sessions: Sessions
    inbox: InboxQueue
    outbox: OutboxQueue
    turns: Turns
    events: Events
    asks: Asks
    people: PeopleTable
    schedules: Schedules
    rules: Rules
    blobs: BlobTable
    spending: Spending
    audit: Audit
    transcripts: Transcripts
    nodes: Nodes

    def get_fact(self, key: str) -> str | None:
        """Read a small durable fact. `runtime/facts.py` makes the keys of facts and tallies."""
        ...

    def set_fact(self, key: str, value: str) -> None: ...

    def facts_of(self, prefix: str) -> list[tuple[str, str]]:
        """Return the facts whose key begins so, in order: the rest of each key, and its value."""
        ...

    def tally(self, key: str, at: float, window_s: float) -> int:
        """Count one under `key`, and return the count of the current window."""
        ...

    def tallied(self, key: str, at: float, window_s: float) -> int:
        """Return the count of the window without counting."""
        ...

    def prune(self, before: float, *, limit: int = 1000) -> int:
        """Delete finished rows older than `before`; return how many, at most `limit`.

        A turn with an open ask or an unfinished row stays. Call again until it returns 0."""
        ...


class Store(Protocol):
    epoch: Epoch | None
    """This node, once it has joined."""

    async def write(self, unit: Callable[[Tx], T]) -> T:
        """Run a unit. If the caller is cancelled, the unit may still be committed."""
        ...

    async def read(self, unit: Callable[[Tx], T]) -> T:
        """Run a unit that sees every write that has returned. Raises `StoreError` if it writes."""
        ...

    def changes(self, *, of_others: bool = False) -> AsyncIterator[None]:
        """Yield after commits, with `of_others` only after those of other processes. A hint may be lost: poll too."""
        ...

    async def close(self) -> None: ...


class ReadOnlyStore(Protocol):
    """A store for commands that only read: creates nothing and migrates nothing."""

    def read(self, unit: Callable[[Tx], T]) -> T: ...

    def check(self) -> str:
        """Say what is wrong with the store, in one line; empty if it is sound."""
        ...


class StoreSpec(Struct, frozen=True):
    """The object that an entry point of `pilothouse.stores` names."""

    id: str
    title: str
    config: type[Struct]
    open: Callable[..., Any]
    """`open(config, *, on_commit=None) -> AsyncContextManager[Store]`. `on_commit` is called after each commit, before
    its caller returns and off the event loop: tests crash the process there."""
    save: Callable[[Any, Path], Path] | None = None
    """`save(config, folder)` writes a consistent copy of the store into the folder, also while a gateway runs, and returns
    its main file. Everything in the folder belongs to the copy."""
    open_read_only: Callable[[Any], AbstractContextManager[ReadOnlyStore]] | None = None
    """Opens the store of a config read-only. Raises `StoreTooNew` or `StoreTooOld` for another schema."""
