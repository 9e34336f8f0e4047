"""A node is one process of ours, known by its epoch. It proves that it lives with `beat`.

Whatever it has claimed is held under that lease. A node that was `fence`d can write nothing any more: every `write`
checks it first.

Port: where truth is kept.

`write(unit)` runs `unit(tx)` as one transaction and returns when it is durable; if the unit raises, nothing of it
was written. A unit is plain, quick, synchronous code that touches nothing but its `tx`: stores may run it on
another thread, and may commit several units together. `read(unit)` sees one consistent state.

Each table stands beside the rows it keeps: `queue.py`, `conversation.py`, `turn.py`, `ask_rows.py`, `people.py`,
`schedule.py`, `rules.py`, `spending.py`, `audit.py`, `node.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
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
from pilothouse.core.queue import InboxQueue, OutboxQueue
from pilothouse.core.rules import Rules
from pilothouse.core.schedule import Schedules
from pilothouse.core.turn import Turns

Role = Literal["engines", "channels", "scheduler"]

T = TypeVar("T")

STORE_NAME = "store.name"
"""The fact that holds the name which a store was given once."""


class NodeInfo(Struct, frozen=True):
    """Who a process is: enough to tell, on its own host, whether it still lives."""

    name: str
    host: str
    pid: int
    started: str
    """The kernel's start time of the process, so that a reused pid is not taken for it."""


class Node(Struct, frozen=True):
    epoch: Epoch
    info: NodeInfo
    roles: tuple[Role, ...]
    lease_until: float
    beats: int
    fenced: bool


class Nodes(Protocol):
    def join(self, info: NodeInfo, roles: Sequence[Role], lease_until: float) -> Epoch:
        """Makes this store speak for the new node from now on."""
        ...

    def beat(self, lease_until: float) -> None: ...

    def add_role(self, role: Role) -> None:
        """Raises `RoleHeld` while another node that was not fenced has the role `engines`."""
        ...

    def leave(self) -> None:
        """Gives back every role; the node is fenced by its own will, and so this store writes nothing any more."""
        ...

    def claimants(self) -> list[Epoch]:
        """Nodes that were fenced, or left, and still hold claims or live turns: somebody must recover them."""
        ...

    def list(self) -> list[Node]:
        """Those not fenced, oldest first."""
        ...

    def get(self, epoch: Epoch) -> Node | None: ...

    def fence(self, epoch: Epoch) -> None: ...


class Events(Protocol):
    def append(
        self, conversation_id: ConversationId, turn_id: TurnId, events: Sequence[EngineEvent], at: float
    ) -> int:
        """Gives each the next sequence number of its conversation; returns the last one given."""
        ...

    def after(self, conversation_id: ConversationId, seq: int, *, limit: int = 500) -> list[LoggedEvent]: ...

    def last_seq(self, conversation_id: ConversationId) -> int: ...

    def of_turn(self, turn_id: TurnId, *, limit: int = 100_000) -> list[LoggedEvent]: ...


class BlobTable(Protocol):
    def put(self, data: bytes, media_type: str, at: float) -> BlobHash: ...

    def get(self, blob: BlobHash) -> bytes | None: ...

    def attach(self, data: bytes, name: str, media_type: str, at: float) -> Attachment: ...


class Tx(Protocol):
    """One transaction over all of it."""

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
    nodes: Nodes

    def get_fact(self, key: str) -> str | None:
        """Small durable facts: which notices were shown, which folder was used last."""
        ...

    def set_fact(self, key: str, value: str) -> None: ...

    def tally(self, key: str, at: float, window_s: float) -> int:
        """Counts one more under `key`, and says how many there are since the first of this window."""
        ...

    def tallied(self, key: str, at: float, window_s: float) -> int:
        """How many were counted in the window; counts nothing."""
        ...

    def prune(self, before: float, *, limit: int = 1000) -> int:
        """Deletes finished rows older than `before`, never what is unfinished; returns how many, at most `limit`.

        A turn stays while an open ask or an unfinished row belongs to it. Call it again until it returns 0."""
        ...


class Store(Protocol):
    epoch: Epoch | None
    """This node, once it has joined."""

    async def write(self, unit: Callable[[Tx], T]) -> T:
        """If whoever waits is cancelled, the unit may still be committed."""
        ...

    async def read(self, unit: Callable[[Tx], T]) -> T:
        """Sees every write that has returned. A unit that writes is refused, `StoreError`."""
        ...

    def changes(self, *, of_others: bool = False) -> AsyncIterator[None]:
        """Wakes after commits; with `of_others` only after those of other processes, for whoever knows of its own.
        It is a hint and may be lost: poll too."""
        ...

    async def close(self) -> None: ...


class Look(Protocol):
    """A store as commands see it that only read: nothing is made, and no schema is changed."""

    def read(self, unit: Callable[[Tx], T]) -> T: ...

    def check(self) -> str:
        """What is wrong with the store, in one line; empty if it is sound."""
        ...


class StoreSpec(Struct, frozen=True):
    """The object that an entry point of `pilothouse.stores` names."""

    id: str
    title: str
    config: type[Struct]
    open: Callable[..., Any]
    """`open(config, *, on_commit=None) -> AsyncContextManager[Store]`. `on_commit` is called after each commit,
    before anybody is told of it, and not on the event loop: tests crash the process there."""
    look: Callable[[Any], AbstractContextManager[Look]] | None = None
    """With its config. Raises `StoreTooNew` or `StoreTooOld` where the schema is another's."""
