"""The life of a turn, as a table. `running` and `waiting` are live: a session has at most one (law 2)."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from pilothouse.core.errors import IllegalMove
from pilothouse.core.failure import Failure
from pilothouse.core.ids import ConversationId, EngineId, Epoch, SessionId, TurnId, UserId
from pilothouse.core.message import Attachment
from pilothouse.core.usage import Usage

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
