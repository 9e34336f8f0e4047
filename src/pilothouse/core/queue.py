"""What waits: the rows of inbox and outbox, the parts of an outgoing message, and the queues that hold them.

A row is `queued → claimed → done | failed | withdrawn`, and `claimed → queued` on retry or release. Order is by
`seq`. A key that was seen before changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from msgspec import Raw, Struct

from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import ChannelId, ConversationId, EngineId, Epoch, MessageId, TurnId
from pilothouse.core.message import MessageRef, Part

RowStatus = Literal["queued", "claimed", "done", "failed", "withdrawn"]
PartState = Literal["pending", "sending", "sent"]

PART_MOVES: dict[PartState, frozenset[PartState]] = {
    "pending": frozenset({"sending"}),
    "sending": frozenset({"sending", "sent", "pending"}),
    "sent": frozenset(),
}
"""A part found `sending` may be sent again: whether it arrived is not known, and `sends` tells so."""

CONTROL_LANE = "control"
"""Answers, commands and steering: they never wait behind the turn that waits for them."""

NEVER = 4_000_000_000.0
"""The `ready_at` of a note: it is never ready by itself."""

CHANGES = frozenset({"closed", "view"})
"""Kinds of the outbox that send nothing and change what stands there: while one has to wait, nobody waits behind it. If it
fails nothing is missing, so nobody is told."""


def notes_lane(conversation_id: ConversationId) -> str:
    """What a session should know but nobody waits for: it starts no turn and goes along with the next one."""
    return f"notes {conversation_id}"


def move_part(state: PartState, to: PartState) -> PartState:
    """The new state; an illegal move raises and changes nothing."""
    if to not in PART_MOVES[state]:
        raise IllegalMove("a part", state, to)
    return to


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


class PartRow(Struct, frozen=True):
    index: int
    part: Part
    state: PartState
    sends: int = 0
    ref: MessageRef | None = None


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

    def waiting(self, lane: str, *, ready_by: float = math.inf, limit: int = 100) -> list[QueueRow]:
        """The queued rows of a lane, oldest first: those that are ready at `ready_by`. The filter is in the query."""
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

    def rewrite(self, id: MessageId, body: bytes, *, ready_at: float | None = None) -> bool:
        """Only a queued row can be changed: what it says, and when it is ready, if that is given."""
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

        Nothing starts behind an open ask of their session whose turn has ended: that ask goes first.

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
        of one of these, if it is queued and ready. Rows behind an unfinished one wait: order is kept per conversation.
        Only one of `CHANGES` that is not ready yet is passed over."""
        ...

    def of_no_turn(self, conversation_id: ConversationId, *, but: str, limit: int = 100) -> list[QueueRow]:
        """Queued and claimed rows of a conversation that no turn said, oldest first, without those whose key begins with
        `but`. The filter is in the query."""
        ...

    def channels_waiting(self) -> list[ChannelId]:
        """Channels for which anything is unfinished."""
        ...

    def store_parts(self, id: MessageId, parts: Sequence[Part]) -> list[PartRow]:
        """Once only: parts that are stored already are returned as they stand."""
        ...

    def parts(self, id: MessageId) -> list[PartRow]: ...

    def replace_part(self, id: MessageId, index: int, parts: Sequence[Part]) -> None:
        """These instead of a part that is `pending`, as all behind it must be, which move. Otherwise, and for no parts at
        all, it is an `IllegalMove`."""
        ...

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
