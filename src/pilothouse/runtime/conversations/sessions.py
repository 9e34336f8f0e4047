"""Which earlier session a message goes on with: the one whose answer it replies to, or the one that a resume line names.

Rules: a member may go on with what was said in their own conversation; any other session, also one that was only ever used
in a terminal, is for owners, who name it, for a reply reaches none; one engine's token is one session of ours, so that law 2
holds for it wherever it is used.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import IdMaker, SessionId
from pilothouse.core.message import Author, InboundMessage, MessageRef
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.conversations.binding import bound, workspace_of
from pilothouse.runtime.roles import may
from pilothouse.runtime.settings import Settings

NOT_YOURS = "That session is not of this conversation; only an owner may continue it here."
RETIRED = "That session was retired because it could not be resumed. /new starts a fresh one."
GOES_ON = "This goes on with an earlier session."


class Aim(Struct, frozen=True):
    """`message` without its resume lines, for the session that it is for; or why it is not taken."""

    message: InboundMessage
    refusal: str = ""


class Refused(Struct, frozen=True):
    why: str


def aim(
    tx: Tx, ids: IdMaker, settings: Settings, conversation: Conversation, message: InboundMessage, at: float
) -> Aim:
    # A reaction tells of a message that somebody else may have written: a line in that one resumes nothing; nor does one
    # in a file.
    token, text = parse_resume(settings, message.text) if message.kind == "chat" else (None, message.text)
    if token is None:
        replied_to = _session_replied_to(tx, settings, conversation, message)
        return Aim(msgspec.structs.replace(message, session_id=replied_to))
    found = find_session(tx, ids, settings, conversation, message.author, token, at)
    if isinstance(found, Refused):
        return Aim(message, f"{found.why} Your message was not taken.")
    return Aim(msgspec.structs.replace(message, text=text, session_id=found.id))


def parse_resume(settings: Settings, text: str) -> tuple[ResumeToken | None, str]:
    """What the resume lines in a text say, and the text without them."""
    token: ResumeToken | None = None
    for lines in settings.resume_lines.values():
        found, text = lines.parse(text)
        token = found or token
    return token, text


def find_session(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    conversation: Conversation,
    by: Author,
    token: ResumeToken,
    at: float,
) -> Session | Refused:
    """The session behind a token. One that we never saw is taken in, for an owner."""
    session = tx.sessions.by_resume(token.engine, token.value)
    if session is not None:
        return may_continue(tx, settings, conversation, by, session)
    if not _may_go_beyond(tx, settings, conversation, by):
        return Refused(NOT_YOURS)
    return _adopt(tx, ids, settings, conversation, token, at)


def may_continue(
    tx: Tx, settings: Settings, conversation: Conversation, by: Author, session: Session
) -> Session | Refused:
    if session.conversation_id != conversation.id and not _may_go_beyond(tx, settings, conversation, by):
        return Refused(NOT_YOURS)
    return Refused(RETIRED) if session.retired else session


def _may_go_beyond(tx: Tx, settings: Settings, conversation: Conversation, by: Author) -> bool:
    """Whether they may go on with what was not said in this conversation."""
    workspace = workspace_of(tx, conversation.id, settings.default_workspace)
    return may(tx, settings.people, by.id, "command.resume.foreign", workspace)


def bind(tx: Tx, settings: Settings, conversation: Conversation, session: Session) -> Conversation:
    """The conversation goes on in this session from now on; of its binding only what does not fit is changed."""
    now = bound(tx, conversation)
    chosen = msgspec.structs.replace(conversation, session_id=session.id)
    if session.engine != (now.engine or settings.default_engine):
        chosen = msgspec.structs.replace(chosen, engine=session.engine, model=None)
    if session.workspace != (now.workspace or settings.default_workspace):
        chosen = msgspec.structs.replace(chosen, workspace=session.workspace)
    if chosen != conversation:
        tx.conversations.save(chosen)
    return chosen


def _adopt(
    tx: Tx, ids: IdMaker, settings: Settings, conversation: Conversation, token: ResumeToken, at: float
) -> Session | Refused:
    """It works in the conversation's folder; the token keeps the one that it was used in, as far as anybody said."""
    lines = settings.resume_lines.get(token.engine)
    if lines is None or lines.read(token.value) is None:
        return Refused(f"{token.value!r} is no session of {token.engine}.")
    current = tx.sessions.get(conversation.session_id) if conversation.session_id else None
    chosen = bound(tx, conversation).workspace
    workspace = chosen or (current.workspace if current else "") or settings.default_workspace
    resume = ResumeToken(token.engine, token.value, token.cwd or workspace)
    session = Session(
        SessionId(ids("session")), conversation.id, token.engine, workspace, at, at, resume=resume
    )
    tx.sessions.add(session)
    return session


def replies_elsewhere(tx: Tx, message: InboundMessage) -> bool:
    """Whether what it replies to stands here and is of another conversation, as an ask does that goes to whoever may allow
    it."""
    return _replied_to(tx, message)[1]


def _session_replied_to(
    tx: Tx, settings: Settings, conversation: Conversation, message: InboundMessage
) -> SessionId | None:
    """The session that said what this replies to. One that is retired, or forgotten, cannot be gone on with. One of another
    conversation is not, whoever replies: a word about its ask would bind this conversation to it for good."""
    turn, is_elsewhere = _replied_to(tx, message)
    session = None if turn is None or is_elsewhere else tx.sessions.get(turn.session_id)
    if session is None:
        return None
    found = may_continue(tx, settings, conversation, message.author, session)
    return found.id if isinstance(found, Session) else None


def _replied_to(tx: Tx, message: InboundMessage) -> tuple[Turn | None, bool]:
    """The turn that said what this replies to, and whether it ran elsewhere than where that stands."""
    row = tx.outbox.find_ref(MessageRef(message.address, message.reply_to)) if message.reply_to else None
    turn = tx.turns.get(row.turn_id) if row is not None and row.turn_id is not None else None
    return turn, row is not None and turn is not None and turn.conversation_id != row.conversation_id


def only_resumes(message: InboundMessage, settings: Settings) -> bool:
    """Nothing but a resume line: what `/resume` does, for there is nothing to tell the engine yet."""
    token, rest = parse_resume(settings, message.text)
    return token is not None and not (rest or message.file_text or message.attachments)
