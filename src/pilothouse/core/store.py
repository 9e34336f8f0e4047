"""Port: where truth is kept.

`write(unit)` runs `unit(tx)` as one transaction and returns when it is durable; if the unit raises, nothing of it
was written. A unit is plain, quick, synchronous code that touches nothing but its `tx`: stores may run it on
another thread, and may commit several units together. `read(unit)` sees one consistent state.

A node is one process of ours, known by its epoch. It proves that it lives with `beat`; whatever it has claimed is
held under that lease. A node that was `fence`d can write nothing any more: every `write` checks it first.

Queues. A row is `queued → claimed → done | failed | withdrawn`, and `claimed → queued` on retry or release. Order
is by `seq`. A key that was seen before changes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeVar

from msgspec import Raw, Struct

from pilothouse.core.approvers import Authority, Vote
from pilothouse.core.ask import Ask, AskState, Decision
from pilothouse.core.audit import AuditHead, AuditRow, Verified
from pilothouse.core.budget import Scope, Standing
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.errors import IllegalMove
from pilothouse.core.event import EngineEvent, ResumeToken
from pilothouse.core.ids import (
    AskId,
    BlobHash,
    ChannelId,
    ConversationId,
    EngineId,
    Epoch,
    MessageId,
    RuleId,
    ScheduleId,
    SessionId,
    TurnId,
    UserId,
)
from pilothouse.core.message import Address, Attachment, MessageRef, Part
from pilothouse.core.people import Grant
from pilothouse.core.schedule import Schedule
from pilothouse.core.turn import Turn, TurnStatus

T = TypeVar("T")

RowStatus = Literal["queued", "claimed", "done", "failed", "withdrawn"]
BusyPolicy = Literal["collect", "queue", "steer", "interrupt"]
ThreadSessions = Literal["own", "shared"]
PartState = Literal["pending", "sending", "sent"]
Role = Literal["engines", "channels", "scheduler"]

PART_MOVES: dict[PartState, frozenset[PartState]] = {
    "pending": frozenset({"sending"}),
    "sending": frozenset({"sending", "sent", "pending"}),
    "sent": frozenset(),
}
"""A part found `sending` may be sent again: whether it arrived is not known, and `sends` tells so."""

CONTROL_LANE = "control"
"""Answers, commands and steering: they never wait behind the turn that waits for them."""


STORE_NAME = "store.name"
"""The fact that holds the name which a store was given once."""

NEVER = 4_000_000_000.0
"""The `ready_at` of a note: it is never ready by itself."""


def notes_lane(conversation_id: ConversationId) -> str:
    """What a session should know but nobody waits for: it starts no turn and goes along with the next one."""
    return f"notes {conversation_id}"


def move_part(state: PartState, to: PartState) -> PartState:
    """The new state; an illegal move raises and changes nothing."""
    if to not in PART_MOVES[state]:
        raise IllegalMove("a part", state, to)
    return to


class Conversation(Struct, frozen=True):
    """A place where people talk, and its binding. None means "as configured"."""

    id: ConversationId
    address: Address
    created_at: float
    private: bool = False
    workspace: str | None = None
    engine: EngineId | None = None
    model: str | None = None
    busy: BusyPolicy | None = None
    session_id: SessionId | None = None


class Session(Struct, frozen=True):
    """An engine's memory of a conversation. `failed_resumes` counts in a row; a retired one is never resumed."""

    id: SessionId
    conversation_id: ConversationId
    engine: EngineId
    workspace: str
    created_at: float
    used_at: float
    model: str | None = None
    resume: ResumeToken | None = None
    retired: bool = False
    failed_resumes: int = 0
    turns: int = 0
    cost_usd: float = 0.0


class QueueRow(Struct, frozen=True):
    """`body` is the item's JSON, `kind` says which type it is. `seq` is small and stable: people say it."""

    seq: int
    id: MessageId
    key: str
    lane: str
    conversation_id: ConversationId
    kind: str
    body: Raw
    status: RowStatus
    ready_at: float
    attempts: int
    created_at: float
    turn_id: TurnId | None = None
    epoch: Epoch | None = None
    why: str = ""
    ended_at: float | None = None


class Put(Struct, frozen=True):
    row: QueueRow
    fresh: bool


class Queue(Protocol):
    """The one shape of inbox and outbox."""

    def put(
        self,
        *,
        id: MessageId,
        key: str,
        lane: str,
        conversation_id: ConversationId,
        kind: str,
        body: bytes,
        at: float,
        ready_at: float = 0.0,
        turn_id: TurnId | None = None,
    ) -> Put:
        """The conversation must be stored (`ensure`): a row that nobody could deliver is refused, `StoreError`."""
        ...

    def get(self, id: MessageId) -> QueueRow | None: ...

    def by_key(self, key: str) -> QueueRow | None: ...

    def ready_lanes(self, now: float, *, limit: int, skip: Iterable[str] = ()) -> list[str]:
        """Lanes whose first unfinished row is queued and ready, oldest first. The filter is in the query.

        Lanes in `skip` are left out before the limit counts. A lane with a claimed row is not ready,
        except the control lane, in which every queued and ready row counts for itself.
        """
        ...

    def waiting(self, lane: str, *, limit: int = 100) -> list[QueueRow]:
        """The queued rows of a lane, oldest first, ready or not."""
        ...

    def unfinished(self, conversation_id: ConversationId, *, limit: int = 100) -> list[QueueRow]:
        """Queued and claimed rows of a conversation in any lane, oldest first."""
        ...

    def claim(self, ids: Sequence[MessageId], *, turn_id: TurnId | None = None) -> list[QueueRow]:
        """Takes queued rows for this node and counts an attempt; rows no longer queued are left out.

        A `turn_id` is written into the row and stays there through `retry` and `reap`; `release` puts back
        what `put` said. Only a node may claim: `StoreError` before `join`.
        """
        ...

    def done(self, id: MessageId, at: float, why: str = "") -> bool:
        """False, and nothing changes, unless this node holds the claim. So also `retry`, `fail` and `release`."""
        ...

    def retry(self, id: MessageId, ready_at: float, why: str) -> bool: ...

    def fail(self, id: MessageId, at: float, why: str) -> bool: ...

    def release(self, id: MessageId) -> bool:
        """Back to queued as if it had not been claimed: the attempt is not counted."""
        ...

    def withdraw(self, id: MessageId, at: float, why: str) -> bool:
        """Only a queued row can be withdrawn."""
        ...

    def rewrite(self, id: MessageId, body: bytes) -> bool:
        """Only a queued row can be changed."""
        ...

    def of_turn(self, turn_id: TurnId) -> list[QueueRow]: ...

    def reap(self, epoch: Epoch) -> list[QueueRow]:
        """Rows that the fenced node `epoch` had claimed, now queued again; attempts stay counted.

        Raises `StoreError` if the node was not fenced."""
        ...

    def next_ready_at(self, now: float) -> float | None:
        """When the next row that is not ready now becomes ready."""
        ...

    def shift(self, seconds: float, now: float) -> None:
        """The wall clock jumped by `seconds` and shows `now`: move the `ready_at` of what waited before the jump,
        so that nothing sleeps through it and nothing comes early."""
        ...


class InboxQueue(Queue, Protocol):
    def startable(
        self, now: float, *, engines: Sequence[EngineId] | None, limit: int
    ) -> list[ConversationId]:
        """Conversations with ready work, no row of theirs claimed, no turn of theirs queued or parked, and no live
        turn in their session; the oldest work first. The control lane is not work. A row that is not ready yet
        hides no later one that is.

        With `engines`, only those whose engine is among them: the session's, else the binding's; a conversation
        that has neither is "as configured" and always counts.
        """
        ...


class OutboxQueue(Queue, Protocol):
    def deliverable(
        self,
        now: float,
        *,
        channels: Sequence[ChannelId],
        conversations: Sequence[ConversationId] = (),
        skip: Sequence[ConversationId] = (),
        limit: int,
    ) -> list[QueueRow]:
        """The first unfinished row of each conversation that is of one of `channels`, in `conversations` or a thread
        of one of these, if it is queued and ready. Rows behind an unfinished one wait: order is kept per conversation."""
        ...

    def channels_waiting(self) -> list[ChannelId]:
        """Channels for which anything is unfinished."""
        ...

    def store_parts(self, id: MessageId, parts: Sequence[Part]) -> list[PartRow]:
        """Once only: parts that are stored already are returned as they stand."""
        ...

    def parts(self, id: MessageId) -> list[PartRow]: ...

    def sending(self, id: MessageId, index: int) -> PartRow:
        """Marks that a send begins, and counts it: a part found `sending` later was ambiguous.

        Moves are checked by `PART_MOVES`: `IllegalMove`. An unknown part is a `StoreError`."""
        ...

    def sent(self, id: MessageId, index: int, ref: MessageRef) -> None: ...

    def pending(self, id: MessageId, index: int) -> None:
        """The platform refused for now and surely showed nothing: the send that began does not count."""
        ...

    def find_ref(self, ref: MessageRef) -> QueueRow | None:
        """Which of our messages stands there."""
        ...


class PartRow(Struct, frozen=True):
    index: int
    part: Part
    state: PartState
    sends: int = 0
    ref: MessageRef | None = None


class Conversations(Protocol):
    def ensure(self, conversation: Conversation) -> Conversation:
        """The stored one; `conversation` is stored if there is none."""
        ...

    def get(self, id: ConversationId) -> Conversation | None: ...

    def some(self, ids: Iterable[ConversationId]) -> dict[ConversationId, Conversation]:
        """Those of them that are known, in one look."""
        ...

    def save(self, conversation: Conversation) -> None: ...

    def list(self, *, limit: int = 100) -> list[Conversation]:
        """Newest first."""
        ...


class Sessions(Protocol):
    def add(self, session: Session) -> None: ...

    def get(self, id: SessionId) -> Session | None: ...

    def save(self, session: Session) -> None:
        """Changes a stored one; `StoreError` if there is none."""
        ...

    def of(self, conversation_id: ConversationId | None = None, *, limit: int = 100) -> list[Session]:
        """Newest first."""
        ...

    def by_resume(self, engine: EngineId, value: str) -> Session | None: ...


class Turns(Protocol):
    def add(self, turn: Turn) -> None:
        """Raises `SessionBusy` if it is live and the session has a live turn (law 2).

        A live turn belongs to this node, unless its `epoch` says another; `StoreError` before `join`."""
        ...

    def get(self, id: TurnId) -> Turn | None: ...

    def find(self, prefix: str) -> list[Turn]:
        """Turns whose id starts so, newest first, at most 20."""
        ...

    def move(self, id: TurnId, to: TurnStatus, **changes: Any) -> Turn:
        """Checked by the table in `turn.py`; `changes` are fields of `Turn`. Raises `IllegalMove`, `SessionBusy`.

        Moving to `running` takes the turn for this node (`StoreError` before `join`); a live turn of another node cannot be moved
        (`Fenced`), unless that node was fenced.
        """
        ...

    def note(self, id: TurnId, **changes: Any) -> Turn:
        """Changes fields other than the id and the status, whoever holds the turn; `TypeError` for any other."""
        ...

    def live(self, session_id: SessionId) -> Turn | None: ...

    def live_in(self, conversation_id: ConversationId) -> Turn | None: ...

    def of(
        self,
        conversation_id: ConversationId | None = None,
        *,
        statuses: Sequence[TurnStatus] = (),
        limit: int = 100,
    ) -> list[Turn]:
        """Newest first."""
        ...

    def startable(self, *, limit: int) -> list[Turn]:
        """Queued turns (they were lost or parked before) whose session has no live turn, oldest first."""
        ...

    def parked_due(self, now: float) -> list[Turn]:
        """Oldest first. One that was parked without a `retry_at`, or that somebody stopped, is due at once."""
        ...

    def next_parked_at(self) -> float | None: ...

    def held_by(self, epoch: Epoch) -> list[Turn]:
        """The live turns of a node."""
        ...


class Events(Protocol):
    def append(
        self, conversation_id: ConversationId, turn_id: TurnId, events: Sequence[EngineEvent], at: float
    ) -> int:
        """Gives each the next sequence number of its conversation; returns the last one given."""
        ...

    def after(self, conversation_id: ConversationId, seq: int, *, limit: int = 500) -> list[LoggedEvent]: ...

    def last_seq(self, conversation_id: ConversationId) -> int: ...

    def of_turn(self, turn_id: TurnId, *, limit: int = 100_000) -> list[LoggedEvent]: ...


class AskRow(Struct, frozen=True):
    """`engine_key` is the id under which the engine asked: the ask's own id is ours and outlives the engine.

    Where the house asks by itself, `topic` says about what; `session_id` and `turn_id` are empty if it is about none.
    """

    ask: Ask
    conversation_id: ConversationId
    session_id: SessionId
    turn_id: TurnId
    engine_key: str
    state: AskState
    asked_at: float
    decision: Decision | None = None
    answered_at: float | None = None
    used: bool = False
    """The decision reached an engine. One that did not may still be used, once, for the same payload."""
    authority: Authority = Authority()
    votes: tuple[Vote, ...] = ()
    """Each yes so far, where several people must say it."""
    shown_in: tuple[ConversationId, ...] = ()
    """Where it is shown besides its own conversation."""
    topic: str = ""
    about: AskId | None = None
    """The ask whose reason this one wants to know."""


class Asks(Protocol):
    def add(self, row: AskRow) -> None: ...

    def get(self, id: AskId) -> AskRow | None: ...

    def find(self, prefix: str) -> list[AskRow]:
        """Asks whose id starts so, newest first, at most 20."""
        ...

    def move(self, id: AskId, to: AskState, *, at: float, decision: Decision | None = None) -> AskRow:
        """Checked by the table in `ask.py`. Raises `IllegalMove`, and then nothing changed."""
        ...

    def vote(self, id: AskId, votes: Sequence[Vote]) -> None:
        """Replaces the votes; `StoreError` unless it is open."""
        ...

    def amend(self, id: AskId, decision: Decision) -> AskRow:
        """The reason of a decision came later. `StoreError` unless it is answered."""
        ...

    def mark_used(self, id: AskId, *, turn_id: TurnId | None = None) -> None:
        """`turn_id` is the turn whose engine hears it, where that is not the one that asked: it owns the ask now."""
        ...

    def give_back(self, id: AskId) -> None:
        """The engine that heard the decision is gone and had done nothing: it may be used once more."""
        ...

    def open_in(self, conversation_id: ConversationId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_question(
        self,
        conversation_id: ConversationId,
        now: float,
        accepts: Callable[[Authority], bool],
        *,
        session_id: SessionId | None = None,
    ) -> AskRow | None:
        """The one that a plain reply answers: the oldest, of the oldest 20 that have time left, that `accepts` it."""
        ...

    def open_of(self, session_id: SessionId) -> list[AskRow]:
        """Oldest first."""
        ...

    def open_about(self, topic: str, *, limit: int = 100) -> list[AskRow]:
        """What the house itself asks, oldest first."""
        ...

    def newest(self, *, states: Sequence[AskState] = (), limit: int = 100) -> list[AskRow]:
        """Newest first; without `states`, those that are open."""
        ...

    def of_turn(self, turn_id: TurnId) -> list[AskRow]: ...

    def unused_of(self, session_id: SessionId) -> list[AskRow]:
        """Every answer that never reached an engine, oldest first."""
        ...

    def unused_answer(self, session_id: SessionId, payload_hash: str) -> AskRow | None:
        """An answered ask of this session whose decision never reached an engine."""
        ...

    def expired(self, now: float, *, limit: int) -> list[AskRow]: ...

    def next_expiry(self) -> float | None: ...

    def shift(self, seconds: float, now: float) -> None: ...


class PeopleTable(Protocol):
    """What was granted on the machine. The configuration's people are not in here."""

    def grant(self, grant: Grant) -> None:
        """One role per person and workspace: it replaces what was granted there before."""
        ...

    def revoke(self, user: UserId, workspace: str | None = None) -> list[Grant]:
        """What was taken: in that workspace (`""` is the one for everywhere), or with None all of it."""
        ...

    def of(self, user: UserId) -> list[Grant]: ...

    def everybody(self) -> list[Grant]:
        """By person, then by workspace."""
        ...


class Schedules(Protocol):
    def save(self, schedule: Schedule) -> None: ...

    def get(self, id: ScheduleId) -> Schedule | None: ...

    def remove(self, id: ScheduleId) -> bool: ...

    def of(self, conversation_id: ConversationId | None = None) -> list[Schedule]: ...

    def due(self, now: float) -> list[Schedule]: ...

    def next_at(self) -> float | None: ...


class RuleRow(Struct, frozen=True):
    """A rule that somebody made, word by word. Without a session it lasts; without a workspace it holds everywhere.

    `mark` is what the folder was known by: an allow is not for another folder that took its place.
    """

    id: RuleId
    workspace: str
    mark: str
    rule: str
    by: str
    created_at: float
    session_id: SessionId | None = None


class Rules(Protocol):
    def add(self, row: RuleRow) -> bool:
        """False, and nothing changes, if this very rule is there already for the same folder and session."""
        ...

    def remove(self, id: RuleId) -> RuleRow | None:
        """The rule that was there."""
        ...

    def of(self, workspace: str, session_id: SessionId | None = None) -> list[RuleRow]:
        """What holds there: its own and those that hold everywhere, and the session's; oldest first."""
        ...

    def list(self) -> list[RuleRow]:
        """Every rule, oldest first."""
        ...


class BlobTable(Protocol):
    def put(self, data: bytes, media_type: str, at: float) -> BlobHash: ...

    def get(self, blob: BlobHash) -> bytes | None: ...

    def attach(self, data: bytes, name: str, media_type: str, at: float) -> Attachment: ...


class Spent(Struct, frozen=True):
    """What a day's turns of one kind in one place cost. `untold` of them did not say."""

    day: str
    conversation_id: ConversationId
    workspace: str
    engine: EngineId
    cause: str
    turns: int = 0
    untold: int = 0
    cost_usd: float = 0.0
    assumed_usd: float = 0.0


class Reservation(Struct, frozen=True):
    """What an unended turn may cost. With an `ask_id` it is not taken: the turn is held until that ask is settled."""

    turn_id: TurnId
    day: str
    workspace: str
    conversation_id: ConversationId
    amount_usd: float
    ask_id: AskId | None = None


class CapDay(Struct, frozen=True):
    """What people decided and were told about one scope (`Scope.key`) on one day."""

    day: str
    scope: str
    raised_usd: float = 0.0
    alerted: int = 0
    """The highest level, in percent, that people were told of."""
    ask_id: AskId | None = None
    """The last ask for more."""


class Spending(Protocol):
    """Where money went. It is kept by the day and outlives the turns themselves."""

    def add(self, spent: Spent) -> None:
        """Adds to what that day, place, engine and cause cost already."""
        ...

    def of(self, *, since: str = "") -> list[Spent]:
        """From that day on, oldest first."""
        ...

    def standing(self, scope: Scope, day: str, cap_usd: float) -> Standing: ...

    def average(self, engine: EngineId, since: str) -> float | None:
        """What a turn that told its cost came to, from that day on; None if there was none."""
        ...

    def reserve(self, reservation: Reservation) -> None:
        """One for each turn: it replaces what the turn had reserved before."""
        ...

    def get(self, turn_id: TurnId) -> Reservation | None: ...

    def release(self, turn_id: TurnId) -> Reservation | None:
        """What it was, if there was one."""
        ...

    def held(self, ask_id: AskId) -> list[Reservation]:
        """Those that wait for an ask, oldest first."""
        ...

    def cap_day(self, scope: Scope, day: str) -> CapDay: ...

    def save_cap_day(self, cap_day: CapDay) -> None: ...


class Audit(Protocol):
    """Append-only: no row is ever changed or deleted, not even by pruning."""

    def add(self, at: float, who: str, what: str, detail: str = "") -> None:
        """Chained to the row before (`core/audit.py`), in the transaction of what it tells of."""
        ...

    def after(self, seq: int, *, limit: int = 1000) -> list[AuditRow]:
        """Oldest first."""
        ...

    def list(self, *, limit: int = 100, since: float | None = None) -> list[AuditRow]:
        """Newest first."""
        ...

    def head(self) -> AuditHead:
        """The last row that was written, remembered apart from it: rows cut off at the end show."""
        ...

    def verify(self, noted: Sequence[AuditHead] = ()) -> Verified: ...


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
