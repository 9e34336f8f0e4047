"""`/sessions` and `/resume`: list earlier sessions to tap, and continue one.

Members see and continue the sessions of their own conversation; owners also those of other conversations, such as a
terminal's, but a group is never shown what was said elsewhere. A session is named by its id, the beginning of its id, an engine's token or a resume line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilothouse.core.conversation import Session
from pilothouse.core.engine import FoundSession
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import ConversationId, EngineId, SessionId
from pilothouse.core.message import CommandButton
from pilothouse.core.people import allows
from pilothouse.core.store import Tx
from pilothouse.core.text import ago, first_line
from pilothouse.runtime.commands.call import CommandCall, NotDone, Reply, engine_of, session_of
from pilothouse.runtime.commands.engine_sessions import PREFIX, parse_point
from pilothouse.runtime.conversations.binding import (
    Refused,
    bind,
    find_session,
    may_continue,
    parse_resume,
)
from pilothouse.runtime.conversations.handover import begin_fork
from pilothouse.runtime.turns.prompt import unframe

LISTED = 8
LISTED_ELSEWHERE = 5
NONE_YET = "There is no earlier session yet."
EARLIER = "Earlier sessions. /resume ID goes on with one:"
ELSEWHERE = "Begun elsewhere in this folder:"
IN_PRIVATE = "The messages of that session were not sent here, so they are listed in a private chat only."
TOKEN_CHARS = 13
SHORT_ID = 6
WORDS = 40


def list_sessions(call: CommandCall) -> Reply:
    """List the sessions that the caller may continue here, last used first."""
    found, others = _sessions(call), _found_elsewhere(call)
    if not found and not others:
        return Reply(NONE_YET)
    current = session_of(call)
    lines = [f"`{short_id(one)}` {describe(call, one, current)}" for one in found[:LISTED]]
    more = [f"… and {len(found) - LISTED} more"] if len(found) > LISTED else []
    buttons = [CommandButton(_label(call.tx, one, call.at), f"/resume {one.id}") for one in found[:LISTED]]
    buttons += [CommandButton(_words(call, one), f"/resume {one.resume.value}") for one in others]
    heads = ([EARLIER] if found else []), ([ELSEWHERE] if others else [])
    begun = [f"`{one.resume.value[:TOKEN_CHARS]}` {_words(call, one)}" for one in others]
    return Reply("\n".join([*heads[0], *lines, *more, *heads[1], *begun]), buttons=tuple(buttons))


def session_choices(tx: Tx, place: ConversationId, now: float) -> list[tuple[str, SessionId]]:
    """Name the sessions of a conversation by their first words and their age, last used first, for a menu."""
    return [(_label(tx, one, now), one.id) for one in _usable(tx.sessions.of(place))]


def describe(call: CommandCall, session: Session, current: Session | None = None) -> str:
    """Describe a session in one line: its first words, its turns, its age, and where it is from."""
    told = [_first_words(call.tx, session), _turns(session), ago(call.at - session.used_at)]
    if session.conversation_id != call.conversation.id:
        told.append(f"from {session.conversation_id.partition(':')[0]}")
    if current is not None and session.id == current.id:
        told.append("this one")
    return " · ".join(filter(None, told))


def short_id(session: Session) -> str:
    return session.id.removeprefix(PREFIX)[:SHORT_ID]


def resume(call: CommandCall) -> Reply:
    """Continue a session. A token of another engine is refused; a session only known to a terminal is adopted."""
    word = call.args.strip("` ")
    if not word:
        return list_sessions(call)
    if (point := parse_point(word)) is not None:
        return _resume_at(call, *point)
    engine = engine_of(call, None)
    named = _named(call, word, engine)
    if not named:
        other = _owner_of(call, word, engine)
        if other is not None:
            return NotDone(
                f"That is a session of {other}, not of {engine}. /engine {other} first, then /resume."
            )
        return NotDone(f"No session {word!r} of {engine} is known here. /sessions lists them.")
    if len(named) > 1:
        return NotDone(f"{len(named)} sessions begin with {word!r}. Send more of the id.")
    found = _allowed(call, named[0])
    if isinstance(found, Refused):
        return NotDone(found.why)
    bind(call.tx, call.settings, call.conversation, found)
    if not found.turns or not _may_quote(call, found):
        return Reply(f"From your next message on: that session of {found.engine}, in {found.workspace}.")
    may_fork = found.engine in call.prepared.elsewhere.forks
    back = (CommandButton("Go back to an earlier message", f"/resume {found.id} at"),) if may_fork else ()
    told = f"From your next message on: {describe(call, found)}, in {found.workspace}."
    hint = f" `/resume {short_id(found)} at` goes back to an earlier message." if may_fork else ""
    return Reply(f"{told}{hint}", buttons=back)


def _resume_at(call: CommandCall, id: str, number: int | None) -> Reply:
    """List the messages of a session, or go on after one of them in a new session."""
    elsewhere = call.prepared.elsewhere
    session = call.tx.sessions.get(elsewhere.session) if elsewhere.session else None
    if session is None:
        return NotDone(f"No session {id!r} is known here. /sessions lists them." if id else NONE_YET)
    allowed = may_continue(call.tx, call.settings, call.conversation, call.by, session)
    if isinstance(allowed, Refused):
        return NotDone(allowed.why)
    if not _may_quote(call, session):
        return NotDone(IN_PRIVATE)
    if session.engine not in elsewhere.forks:
        return NotDone(f"{session.engine} cannot go back to an earlier message.")
    if not elsewhere.points:
        return NotDone(elsewhere.problem or "That session has no message to go back to.")
    if number is None:
        return _list_points(call, session)
    if not 0 < number <= len(elsewhere.points):
        return NotDone(f"There is no message {number}: that session has {len(elsewhere.points)}.")
    point = elsewhere.points[number - 1]
    fork = begin_fork(call.tx, call.ids, call.conversation, session, point.id, call.at)
    bind(call.tx, call.settings, call.conversation, fork)
    return Reply(
        f"From your next message on: a new session, as it was after “{_title(point.title)}” and its answer. "
        f"Files stay as they are now. /resume {short_id(session)} goes on with the other one."
    )


def _may_quote(call: CommandCall, session: Session) -> bool:
    """False where a group would read what was said in another conversation."""
    return call.conversation.private or session.conversation_id == call.conversation.id


def _list_points(call: CommandCall, session: Session) -> Reply:
    points = list(enumerate(call.prepared.elsewhere.points, 1))[-LISTED:]
    lines = [f"{number}  {_title(point.title)} · {ago(call.at - point.at)}" for number, point in points]
    buttons = [
        CommandButton(f"{number} {_title(point.title)}", f"/resume {session.id} at {number}")
        for number, point in points
    ]
    head = f"Go on after which message? `/resume {short_id(session)} at N` starts a new session there:"
    return Reply("\n".join([head, *lines]), buttons=tuple(buttons))


def _title(text: str) -> str:
    return first_line(unframe(text), WORDS) or "…"


def _found_elsewhere(call: CommandCall) -> list[FoundSession]:
    """Return the sessions that the engine's program keeps and we do not know: for owners, in private."""
    if not (call.conversation.private and allows(call.role, "command.resume.foreign")):
        return []
    found = call.prepared.elsewhere.found
    unknown = [
        one for one in found if call.tx.sessions.by_resume(one.resume.engine, one.resume.value) is None
    ]
    return unknown[:LISTED_ELSEWHERE]


def _words(call: CommandCall, one: FoundSession) -> str:
    return f"{_title(one.title)} · {ago(call.at - one.used_at)}"


def _allowed(call: CommandCall, named: Session | ResumeToken) -> Session | Refused:
    if isinstance(named, ResumeToken):
        return find_session(call.tx, call.ids, call.settings, call.conversation, call.by, named, call.at)
    return may_continue(call.tx, call.settings, call.conversation, call.by, named)


def _named(call: CommandCall, word: str, engine: EngineId) -> Sequence[Session | ResumeToken]:
    """Return everything that the word may name: a resume line, stored sessions, or a token not stored yet."""
    said, _ = parse_resume(call.settings, call.args)
    if said is not None:
        return [said]
    begins = word if word.startswith(PREFIX) else f"{PREFIX}{word}"
    known = call.tx.sessions.by_resume(engine, word)
    stored = [known] if known is not None else call.tx.sessions.find(begins)
    exact = [one for one in stored if one.id == begins]
    if stored or _owner_of(call, word, engine) is not None:
        return exact or stored
    lines = call.settings.resume_lines.get(engine)
    token = lines.read(word) if lines else None
    begun = [one.resume for one in call.prepared.elsewhere.found if one.resume.value.startswith(word)]
    return [token] if token is not None else begun


def _owner_of(call: CommandCall, token: str, engine: EngineId) -> EngineId | None:
    others = set(call.settings.engine_names.values()) - {engine}
    return next((other for other in sorted(others) if call.tx.sessions.by_resume(other, token)), None)


def _sessions(call: CommandCall) -> list[Session]:
    everywhere = call.conversation.private and allows(call.role, "command.resume.foreign")
    found = _usable(call.tx.sessions.of(None if everywhere else call.conversation.id))
    return [one for one in found if isinstance(_allowed(call, one), Session)]


def _usable(found: Iterable[Session]) -> list[Session]:
    usable = [one for one in found if not one.retired and one.turns]
    return sorted(usable, key=lambda one: one.used_at, reverse=True)


def _label(tx: Tx, session: Session, now: float) -> str:
    return f"{_first_words(tx, session)} · {ago(now - session.used_at)}"


def _first_words(tx: Tx, session: Session) -> str:
    """Return the beginning of its first prompt, or its short id if that is no longer stored."""
    turn = tx.turns.first_of(session.conversation_id, session.id)
    words = first_line(unframe(turn.prompt.text), WORDS) if turn is not None else ""
    return words or f"session {short_id(session)}"


def _turns(session: Session) -> str:
    return f"{session.turns} turn{'' if session.turns == 1 else 's'}"
