"""Queues: the rows of inbox and outbox, and the parts of an outgoing message.

A row is `queued → claimed → done | failed | withdrawn`, and `claimed → queued` on retry or release. Order is by
`seq`. A key that exists already changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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
"""A part found `sending` may be sent again: it is unknown whether it arrived, and `sends` counts the attempts."""

CONTROL_WAITLIST = "control"
"""Answers, commands and steering, which must not wait behind the turn that waits for them."""

NEVER = 4_000_000_000.0
"""The `ready_at` of a note, which never starts a turn by itself."""

CHANGES = frozenset({"closed", "view", "edit", "reaction"})
"""Outbox kinds that edit an existing message. A postponed one blocks no later row, and a failed one is not reported."""


def notes_waitlist(conversation_id: ConversationId) -> str:
    """Return the waitlist of notes, which start no turn and join the next one."""
    return f"notes {conversation_id}"


def move_part(state: PartState, to: PartState) -> PartState:
    """Return the new state. An illegal move raises `IllegalMove`."""
    if to not in PART_MOVES[state]:
        raise IllegalMove("a part", state, to)
    return to


class QueueRow(Struct, frozen=True):
    """`body` is the item's JSON, of the type that `kind` names. `seq` is small and stable, so that people can type it.

    `waitlist` (the column `lane`) names the rows that wait together: those of a conversation, its notes, or control."""

    seq: int
    id: MessageId
    key: str
    waitlist: str
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
    """The common interface of inbox and outbox. Filters are part of the query."""

    def put(
        self,
        *,
        id: MessageId,
        key: str,
        conversation_id: ConversationId,
        kind: str,
        body: bytes,
        at: float,
        ready_at: float = 0.0,
        turn_id: TurnId | None = None,
        waitlist: str | None = None,
    ) -> Put:
        """Add a row; without a `waitlist`, to that of its conversation. Raises `StoreError` unless the conversation is stored."""
        ...

    def get(self, id: MessageId) -> QueueRow | None: ...

    def by_key(self, key: str) -> QueueRow | None: ...

    def waiting(self, waitlist: str, *, ready_by: float = math.inf, limit: int = 100) -> list[QueueRow]:
        """The queued rows of a waitlist, oldest first: those that are ready at `ready_by`. The filter is in the query."""
        ...

    def unfinished(self, conversation_id: ConversationId, *, limit: int = 100) -> list[QueueRow]:
        """Queued and claimed rows of a conversation in any waitlist, oldest first."""
        ...

    def claim(self, ids: Sequence[MessageId], *, turn_id: TurnId | None = None) -> list[QueueRow]:
        """Take queued rows for this node and count an attempt; rows no longer queued are left out.

        A `turn_id` is written into the row and survives `retry` and `reap`; `release` restores the one of `put`.
        Raises `StoreError` before `join`."""
        ...

    def done(self, id: MessageId, at: float, why: str = "") -> bool:
        """Return False and change nothing unless this node holds the claim. The same holds for `retry`, `fail` and
        `release`."""
        ...

    def retry(self, id: MessageId, ready_at: float, why: str) -> bool: ...

    def fail(self, id: MessageId, at: float, why: str) -> bool: ...

    def release(self, id: MessageId) -> bool:
        """Return the row to the queue without counting the attempt."""
        ...

    def withdraw(self, id: MessageId, at: float, why: str) -> bool:
        """Withdraw a queued row; False for any other."""
        ...

    def rewrite(self, id: MessageId, body: bytes, *, ready_at: float | None = None) -> bool:
        """Change the body, and optionally `ready_at`, of a queued row; False for any other."""
        ...

    def of_turn(self, turn_id: TurnId) -> list[QueueRow]: ...

    def reap(self, epoch: Epoch) -> list[QueueRow]:
        """Return the claimed rows of the fenced node `epoch` to the queue; attempts stay counted.

        Raises `StoreError` if the node was not fenced."""
        ...

    def next_ready_at(self, now: float) -> float | None:
        """The next time at which a row becomes ready."""
        ...

    def shift(self, seconds: float, now: float) -> None:
        """Move `ready_at` of waiting rows after the wall clock jumped by `seconds` to `now`."""
        ...


class InboxQueue(Queue, Protocol):
    def startable(
        self, now: float, *, engines: Sequence[EngineId] | None, limit: int
    ) -> list[ConversationId]:
        """Conversations with ready work, no row of theirs claimed, no turn of theirs queued or parked, and no live
        turn in their session; the oldest work first. The control waitlist is not work. A row that is not ready yet
        hides no later one that is.

        Nothing starts behind an open ask of their session whose turn has ended: that ask goes first.

        With `engines`, only those whose engine is among them: the session's, else the binding's; a conversation
        that has neither is "as configured" and always counts."""
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
        """Return the first unfinished row of each conversation, if it is queued and ready.

        Conversations are those of `channels`, and `conversations` with their threads. Order is kept per conversation:
        later rows wait, except behind one of `CHANGES` that is not ready yet."""
        ...

    def of_no_turn(self, conversation_id: ConversationId, *, but: str, limit: int = 100) -> list[QueueRow]:
        """Queued and claimed rows of a conversation that belong to no turn, oldest first, without those whose key begins
        with `but`."""
        ...

    def channels_waiting(self) -> list[ChannelId]:
        """Channels with unfinished rows."""
        ...

    def store_parts(self, id: MessageId, parts: Sequence[Part]) -> list[PartRow]:
        """Store the parts once; if parts are stored already, return those."""
        ...

    def parts(self, id: MessageId) -> list[PartRow]: ...

    def replace_part(self, id: MessageId, index: int, parts: Sequence[Part]) -> None:
        """Replace a part by others; later parts move. Raises `IllegalMove` unless it and all later ones are `pending`, or
        if `parts` is empty."""
        ...

    def sending(self, id: MessageId, index: int) -> PartRow:
        """Record that a send begins, and count it.

        Raises `IllegalMove` by `PART_MOVES`, and `StoreError` for an unknown part."""
        ...

    def sent(self, id: MessageId, index: int, ref: MessageRef) -> None: ...

    def pending(self, id: MessageId, index: int) -> None:
        """The platform refused for now and showed nothing: do not count the send."""
        ...

    def find_ref(self, ref: MessageRef) -> QueueRow | None:
        """Return the row that was sent as this message."""
        ...
