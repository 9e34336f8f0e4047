"""A conversation that moves from one engine to another, and back.

Each engine has its own session, and keeps it. The session that the conversation moves to knows by a fact which sessions
came before it, and of which of them its next prompt tells a recap. So moving back finds the first session again, and tells
it what was said since. `/new` ends the chain: a session that begins by itself has none.

A session may also go on from an earlier point of another one of the same engine, which is called a fork.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId, IdMaker, SessionId
from pilothouse.core.store import Tx
from pilothouse.runtime.facts import FORK, HANDOVER, load_fact, save_fact

MOST = 20
"""Sessions of one chain that are remembered."""

T = TypeVar("T")


class Handover(Struct, frozen=True):
    """Sessions of other engines that a session continues. `told` are sessions, oldest first."""

    before: tuple[SessionId, ...] = ()
    """The other sessions of the chain: moving to the engine of one of them goes back to it."""
    told: tuple[SessionId, ...] = ()
    """The sessions that it gets, or got, a recap of."""
    since: float = 0.0
    """Only their turns from here on are told."""
    is_due: bool = False
    """The recap has not reached the engine yet."""


class Fork(Struct, frozen=True):
    """A point of another session, from which a new one goes on."""

    resume: ResumeToken
    at: str


def fork_of(tx: Tx, session: Session) -> Fork | None:
    """Return the point that a session goes on from; None if it has a history of its own."""
    return load_fact(tx, FORK.of(session.id), Fork) if session.resume is None else None


def begin_fork(tx: Tx, ids: IdMaker, place: Conversation, parent: Session, point: str, at: float) -> Session:
    """Begin a session that goes on from a point of another one, which stays as it is."""
    assert parent.resume is not None, "its points were listed"
    session = Session(
        SessionId(ids("session")), place.id, parent.engine, parent.workspace, at, at, model=parent.model
    )
    tx.sessions.add(session)
    save_fact(tx, FORK.of(session.id), Fork(parent.resume, point))
    return session


def handover_of(tx: Tx, session_id: SessionId) -> Handover:
    return load_fact(tx, HANDOVER.of(session_id), Handover) or Handover()


def lineage(tx: Tx, session_id: SessionId) -> tuple[SessionId, ...]:
    """Return the session and those whose recap it was given."""
    return (*handover_of(tx, session_id).told, session_id)


def find_earlier(tx: Tx, current: Session, engine: EngineId) -> Session | None:
    """Return the session that this conversation had with an engine before it moved away from it."""
    found = map(tx.sessions.get, reversed(handover_of(tx, current.id).before))
    return next((one for one in found if one is not None and _goes_on(one, current, engine)), None)


def _goes_on(session: Session, current: Session, engine: EngineId) -> bool:
    same_place = session.engine == engine and session.workspace == current.workspace
    return same_place and session.resume is not None and not session.retired


def move_back(tx: Tx, conversation: Conversation, current: Session, earlier: Session) -> Session:
    """Go on in an earlier session, which is told what was said since, and what an undelivered recap would have told."""
    chain = _chain(tx, current, besides=earlier.id)
    known = handover_of(tx, earlier.id)
    told = _last((*known.told, *chain))
    since = known.since if known.is_due else earlier.used_at
    save_fact(tx, HANDOVER.of(earlier.id), Handover(chain, told, since, is_due=True))
    _bind(tx, conversation, earlier)
    return earlier


def move_on(
    tx: Tx,
    ids: IdMaker,
    conversation: Conversation,
    current: Session,
    engine: EngineId,
    at: float,
    *,
    along: bool,
) -> Session:
    """Begin a session of another engine in the same folder; with `along`, it is told of the sessions before it."""
    session = Session(SessionId(ids("session")), conversation.id, engine, current.workspace, at, at)
    tx.sessions.add(session)
    told = lineage(tx, current.id) if along else ()
    handover = Handover(_chain(tx, current), _last(told), is_due=along)
    save_fact(tx, HANDOVER.of(session.id), handover)
    _bind(tx, conversation, session)
    return session


def note_told(tx: Tx, session_id: SessionId) -> None:
    """Note that the engine has read the recap."""
    handover = handover_of(tx, session_id)
    if handover.is_due:
        save_fact(tx, HANDOVER.of(session_id), replace(handover, is_due=False))


def _chain(tx: Tx, current: Session, besides: SessionId | None = None) -> tuple[SessionId, ...]:
    chain = (*handover_of(tx, current.id).before, current.id)
    return _last(one for one in chain if one != besides)


def _last(ids: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(ids))[-MOST:]


def _bind(tx: Tx, conversation: Conversation, session: Session) -> None:
    tx.conversations.save(replace(conversation, engine=session.engine, model=None, session_id=session.id))
