"""The life of a turn, as a table. `running` and `waiting` are live: a session has at most one (law 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct

from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import ConversationId, EngineId, Epoch, SessionId, TurnId, UserId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure, Usage

TurnStatus = Literal["queued", "running", "waiting", "parked", "lost", "done", "failed", "cancelled"]
Cause = Literal["message", "schedule", "webhook", "agent", "reaction", "system", "answer", "wake", "continue"]

TURN_STATUSES: tuple[TurnStatus, ...] = get_args(TurnStatus)
LIVE: frozenset[TurnStatus] = frozenset({"running", "waiting"})
ENDED: frozenset[TurnStatus] = frozenset({"done", "failed", "cancelled"})

TURN_MOVES: dict[TurnStatus, frozenset[TurnStatus]] = {
    "queued": frozenset({"running", "cancelled", "failed"}),
    "running": frozenset({"waiting", "parked", "lost", "done", "failed", "cancelled"}),
    "waiting": frozenset({"running", "lost", "failed", "cancelled"}),
    "parked": frozenset({"queued", "cancelled"}),
    "lost": frozenset({"queued", "failed", "cancelled"}),
    "done": frozenset(),
    "failed": frozenset(),
    "cancelled": frozenset(),
}


class Prompt(Struct, frozen=True):
    """What the engine is given. `by` names who said it, for the log; it is not part of the text, nor are `authors`."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    by: str = ""
    authors: tuple[UserId, ...] = ()
    """Whose work this is: they may answer what it asks."""
    by_owner: bool = False
    """Everybody who said it is an owner. Some engines take certain prompts from nobody else."""
    commands: bool = False
    """As an owner typed it, and nobody else: an engine may take its own commands from it."""
    wake: str = ""
    """The engine began by itself: this is which of its wakes the turn takes in."""


class Turn(Struct, frozen=True):
    """One prompt and all that came of it. `began` is true once a tool with side effects or answer text was seen."""

    id: TurnId
    session_id: SessionId
    conversation_id: ConversationId
    engine: EngineId
    status: TurnStatus
    cause: Cause
    prompt: Prompt
    created_at: float
    attempts: int = 0
    began: bool = False
    stop_requested: bool = False
    epoch: Epoch | None = None
    retry_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    answer: str = ""
    failure: Failure | None = None
    usage: Usage | None = None


def move_turn(status: TurnStatus, to: TurnStatus) -> TurnStatus:
    """The new status; an illegal move raises and changes nothing."""
    if to not in TURN_MOVES[status]:
        raise IllegalMove("a turn", status, to)
    return to


def may_run_again(turn: Turn) -> bool:
    """A lost turn is repeated once, and only if repeating it can neither harm nor show an answer twice. What an engine
    began by itself cannot be had again."""
    return not (turn.began or turn.stop_requested or turn.prompt.wake) and turn.attempts < 2


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
        """Checked by `TURN_MOVES`; `changes` are fields of `Turn`. Raises `IllegalMove`, `SessionBusy`.

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
