"""Sessions that an engine itself lists, asked before the transaction of `/sessions` and `/resume`.

Sessions that its program keeps, also those begun in a terminal, are listed for owners in private chats. Where the engine can
fork, `/resume ID at` lists the messages of a session, and `/resume ID at N` goes on after one of them in a new session.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import anyio
from msgspec import Struct

from pilothouse.core.conversation import Session
from pilothouse.core.engine import Forks, FoundSession, ListsCommands, ListsSessions, SessionPoint
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx
from pilothouse.runtime.conversations.binding import bound
from pilothouse.runtime.conversations.places import place_id
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.trust import StoredTrust, note_trust, stored_trust

PREFIX = "session-"
ANSWERED_WITHIN_S = 8.0
_POINT = re.compile(r"(?:(?P<id>\S+)[ \t]+)?at(?:[ \t]+(?P<number>\d{1,6}))?", re.IGNORECASE)
_TOKEN_BEGINS = re.compile(r"(?!session-)[0-9A-Za-z][\w-]{5,63}")


class Elsewhere(Struct, frozen=True):
    """The answers of the conversation's engine."""

    found: tuple[FoundSession, ...] = ()
    session: SessionId | None = None
    """The session that `/resume ID at` names; the current one without an ID."""
    points: tuple[SessionPoint, ...] = ()
    forks: frozenset[EngineId] = frozenset()
    """Engines that can go on from an earlier message."""
    problem: str = ""


class _Place(Struct, frozen=True):
    engine: EngineId
    workspace: str
    session: Session | None


def parse_point(args: str) -> tuple[str, int | None] | None:
    """Read `ID at N`; None if the words mean something else. Without an N, the messages are listed."""
    found = _POINT.fullmatch(args.strip("` "))
    if found is None:
        return None
    return found["id"] or "", int(found["number"]) if found["number"] else None


async def ask_engine(ports: Ports, address: Address, args: str, *, may_list: bool) -> Elsewhere:
    """Ask the conversation's engine for what `/sessions` or `/resume` needs. Starts its program if that must be asked."""
    forks = frozenset(id for id, engine in ports.engines.items() if isinstance(engine, Forks))
    point = parse_point(args)
    place = await ports.store.read(
        lambda tx: _place(tx, ports.settings(), address, point[0] if point else "")
    )
    engine = ports.engines.get(place.engine)
    answer = Elsewhere(session=place.session.id if place.session else None, forks=forks)
    try:
        with anyio.fail_after(ANSWERED_WITHIN_S):
            if point is not None:
                return await _ask_points(answer, engine, place.session)
            wanted = may_list and _may_begin_token(ports.settings(), place.engine, args.strip("` "))
            if wanted and isinstance(engine, ListsSessions):
                found = await _list(ports, engine, place.workspace)
                return Elsewhere(found, answer.session, (), forks)
    except Exception as error:  # noqa: BLE001 - without an answer, our own sessions are listed
        ports.log("engine.sessions_failed", level="warning", engine=place.engine, error=error)
        return Elsewhere((), answer.session, (), forks, problem=f"{place.engine} did not answer: {error}")
    return answer


async def _list(ports: Ports, engine: ListsSessions, workspace: str) -> tuple[FoundSession, ...]:
    """The engine may start a program in the folder, so the trust in it is checked as before a turn."""
    real, stored = await ports.read(lambda tx: _trust_in(tx, workspace))
    trust = await note_trust(ports.settings(), stored, real)
    return tuple(await engine.sessions(workspace, trusted=trust.holds))


def _trust_in(tx: Tx, workspace: str) -> tuple[str, StoredTrust]:
    real = os.path.realpath(workspace)
    return real, stored_trust(tx, real)


async def list_commands(ports: Ports, address: Address) -> tuple[EngineId, Sequence[str]]:
    """Return the conversation's engine, and its own commands as far as they are known. Starts nothing."""
    place = await ports.store.read(lambda tx: _place(tx, ports.settings(), address, ""))
    engine = ports.engines.get(place.engine)
    return place.engine, engine.commands(place.workspace) if isinstance(engine, ListsCommands) else ()


def _may_begin_token(settings: Settings, engine: EngineId, word: str) -> bool:
    """True for no word too, which asks for the list. A whole token is taken without asking."""
    lines = settings.resume_lines.get(engine)
    is_whole = lines is not None and lines.read(word) is not None
    return not word or (not is_whole and _TOKEN_BEGINS.fullmatch(word) is not None)


async def _ask_points(answer: Elsewhere, engine: object, session: Session | None) -> Elsewhere:
    if session is None or session.resume is None or not isinstance(engine, Forks):
        return answer
    return Elsewhere((), session.id, tuple(await engine.points(session.resume)), answer.forks)


def _place(tx: Tx, settings: Settings, address: Address, id: str) -> _Place:
    """Find the engine and folder of a conversation, and the session that is named, or the current one."""
    conversation = tx.conversations.get(place_id(tx, address))
    if conversation is None:
        return _Place(settings.default_engine, settings.default_workspace, None)
    here = bound(tx, conversation)
    current = tx.sessions.get(conversation.session_id) if conversation.session_id else None
    named = _by_id(tx, id) if id else current
    engine = here.engine or (current.engine if current else None) or settings.default_engine
    workspace = here.workspace or (current.workspace if current else "") or settings.default_workspace
    return _Place(named.engine if id and named else engine, workspace, named)


def _by_id(tx: Tx, id: str) -> Session | None:
    found = tx.sessions.find(id if id.startswith(PREFIX) else f"{PREFIX}{id}")
    return found[0] if len(found) == 1 else None
