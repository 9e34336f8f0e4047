"""Past turns of a conversation with their events, and the list of conversations: for channels whose clients replay history.

The run id of a turn is the id of the first message that it answers, so that it is known before the turn exists and is
the same in every replay. A turn that no message began is named by its own id.
"""

from __future__ import annotations

from msgspec import Struct

from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, TurnId
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import Turn
from pilothouse.runtime.conversations.binding import workspace_of
from pilothouse.runtime.turns.prompt import unframe

MAX_PLACES = 10_000
SAID_CHARS = 200
IMAGE = "[image]"


class TurnFacts(Struct, frozen=True):
    """`said` is the prompt without our own frame around it; `[image]` stands for each image."""

    turn: Turn
    run_id: str
    said: str


class PastTurn(Struct, frozen=True):
    facts: TurnFacts
    events: tuple[LoggedEvent, ...]


class History(Struct, frozen=True):
    """`last_seq` is the end of the log at the same moment: following after it misses nothing and repeats nothing."""

    turns: tuple[PastTurn, ...]
    last_seq: int
    omitted: int = 0
    """Older turns that were left out."""


class Place(Struct, frozen=True):
    """One conversation in a list."""

    conversation: Conversation
    workspace: str
    used_at: float
    turns: int
    run_id: str
    last_said: str


def past_turns(tx: Tx, conversation: ConversationId, *, limit: int = 20) -> History:
    """Return the newest `limit` turns that have events, oldest first. With 0, only the live one."""
    found = tx.turns.of(conversation, limit=limit + 1)
    kept = found[:limit]
    live = tx.turns.live_in(conversation)
    if live is not None and all(turn.id != live.id for turn in kept):
        kept.append(live)
    kept.sort(key=lambda turn: turn.created_at)
    turns = tuple(PastTurn(_facts(tx, turn), tuple(tx.events.of_turn(turn.id))) for turn in kept)
    return History(turns, tx.events.last_seq(conversation), max(0, len(found) - limit))


def turn_facts(tx: Tx, id: TurnId) -> TurnFacts | None:
    turn = tx.turns.get(id)
    return None if turn is None else _facts(tx, turn)


def list_places(tx: Tx, *, default_workspace: str = "") -> list[Place]:
    """List conversations in which something was said, last used first."""
    found: list[Place] = []
    for conversation in tx.conversations.list(limit=MAX_PLACES):
        turns = tx.turns.of(conversation.id, limit=1)
        if not turns:
            continue
        session = tx.sessions.get(turns[0].session_id)
        facts = _facts(tx, turns[0])
        used_at = turns[0].ended_at or turns[0].started_at or turns[0].created_at
        workspace = session.workspace if session else workspace_of(tx, conversation.id, default_workspace)
        said = first_line(facts.said, SAID_CHARS)
        count = session.turns if session else len(turns)
        found.append(Place(conversation, workspace, used_at, count, facts.run_id, said))
    return sorted(found, key=lambda place: place.used_at, reverse=True)


def _facts(tx: Tx, turn: Turn) -> TurnFacts:
    rows = tx.inbox.of_turn(turn.id)
    first = min(rows, key=lambda row: row.seq) if rows else None
    words, files = unframe(turn.prompt.text), turn.prompt.attachments
    images = [IMAGE for file in files if file.media_type.startswith("image/")]
    return TurnFacts(turn, first.id if first else turn.id, "\n".join(filter(None, (words, *images))))
