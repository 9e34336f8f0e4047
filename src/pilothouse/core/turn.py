"""Turns and the table of their states. `running` and `waiting` are live: a session has at most one live turn (law 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct

from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import ConversationId, EngineId, Epoch, SessionId, TurnId, UserId
from pilothouse.core.message import Attachment, Chain, CommandButton
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
    """The engine's input. `by` names the senders for the log; neither it nor `authors` is part of the text."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    by: str = ""
    authors: tuple[UserId, ...] = ()
    """The requesters of this work, who may answer its asks."""
    by_owner: bool = False
    """Every author is an owner. Some engines accept certain prompts only then."""
    commands: bool = False
    """Typed by one owner alone, so the engine's own commands are allowed in it."""
    engine_line: bool = False
    """A line for the engine itself, such as a call of one of its tools: it says everything, so that a turn that goes on
    gets it again, and never “Continue.”."""
    wake: str = ""
    """The id of the `Wake`, if the engine began this turn by itself."""
    chain: Chain | None = None
    """Set if the gateway started this work by itself, and no person wrote a part of the prompt."""

    @property
    def is_text_only(self) -> bool:
        """True for a follow-up: its files are saved, and none goes with the prompt as an image."""
        return self.chain is not None and self.chain.is_follow_up


class Turn(Struct, frozen=True):
    """One prompt and its result. `began` is true once a tool with side effects or answer text was seen."""

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
    """Return the new status. An illegal move raises `IllegalMove`."""
    if to not in TURN_MOVES[status]:
        raise IllegalMove("a turn", status, to)
    return to


def may_run_again(turn: Turn) -> bool:
    """True if a lost turn may be repeated: once, and only if nothing was done or shown. A wake cannot be repeated."""
    return not (turn.began or turn.stop_requested or turn.prompt.wake) and turn.attempts < 2


def is_movable(turn: Turn) -> bool:
    """True if another engine may run the turn: nothing was done or shown, and its prompt is the people's own."""
    asked = turn.cause not in ("answer", "continue") and turn.prompt.by != "pilothouse"
    return asked and not (turn.began or turn.answer or turn.prompt.wake)


def retry_button(turn: Turn) -> CommandButton:
    """Return the button below a failure that runs this very turn again, for as long as no other came after it."""
    return CommandButton("Retry", f"/retry {turn.id}")


class Turns(Protocol):
    def add(self, turn: Turn) -> None:
        """Raises `SessionBusy` if it is live and the session has a live turn (law 2).

        A live turn belongs to this node unless its `epoch` names another. Raises `StoreError` before `join`."""
        ...

    def get(self, id: TurnId) -> Turn | None: ...

    def find(self, prefix: str) -> list[Turn]:
        """Return turns whose id starts with `prefix`, newest first, at most 20."""
        ...

    def move(self, id: TurnId, to: TurnStatus, **changes: Any) -> Turn:
        """Move along `TURN_MOVES`; `changes` are fields of `Turn`. Raises `IllegalMove` or `SessionBusy`.

        Moving to `running` takes the turn for this node (`StoreError` before `join`). A live turn of another node cannot
        be moved (`Fenced`), unless that node was fenced."""
        ...

    def note(self, id: TurnId, **changes: Any) -> Turn:
        """Change fields other than id and status, on any node. Raises `TypeError` for those."""
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

    def first_of(self, conversation_id: ConversationId, session_id: SessionId) -> Turn | None:
        """Return the oldest turn that a session has in a conversation."""
        ...

    def startable(self, *, limit: int) -> list[Turn]:
        """Queued turns (lost or parked before) whose session has no live turn, oldest first."""
        ...

    def parked_due(self, now: float) -> list[Turn]:
        """Oldest first. A turn without a `retry_at`, or one that was stopped, is due at once."""
        ...

    def next_parked_at(self) -> float | None: ...

    def held_by(self, epoch: Epoch) -> list[Turn]:
        """The live turns of a node."""
        ...
