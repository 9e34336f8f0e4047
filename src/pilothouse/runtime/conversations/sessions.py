"""Finds the earlier session that a message continues: by the answer it replies to, or by a resume line.

Members may continue sessions of their own conversation. Any other session, also one only ever used in a terminal, is
for owners, who must name it: a reply never reaches it. One engine token is one session of ours wherever it is used, so
law 2 holds for it.
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

NOT_YOURS = "That session belongs to another conversation; only an owner may continue it here."
RETIRED = "That session could not be resumed and was retired. /new starts a new one."
GOES_ON = "This continues an earlier session."


class Target(Struct, frozen=True):
    """A message without its resume lines and with its session; or why it is refused."""

    message: InboundMessage
    refusal: str = ""


class Refused(Struct, frozen=True):
    why: str


def find_target(
    tx: Tx, ids: IdMaker, settings: Settings, conversation: Conversation, message: InboundMessage, at: float
) -> Target:
    # Resume lines count only in a person's own text: not in a message they reacted to, nor in a file.
    token, text = parse_resume(settings, message.text) if message.kind == "chat" else (None, message.text)
    if token is None:
        replied_to = _session_replied_to(tx, settings, conversation, message)
        return Target(msgspec.structs.replace(message, session_id=replied_to))
    found = find_session(tx, ids, settings, conversation, message.author, token, at)
    if isinstance(found, Refused):
        return Target(message, f"{found.why} Your message was not accepted.")
    return Target(msgspec.structs.replace(message, text=text, session_id=found.id))


def parse_resume(settings: Settings, text: str) -> tuple[ResumeToken | None, str]:
    """Return the token of the resume lines in a text, and the text without them."""
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
    """Return the session of a token. An owner may adopt one that is not stored yet."""
    session = tx.sessions.by_resume(token.engine, token.value)
    if session is not None:
        return may_continue(tx, settings, conversation, by, session)
    if not _may_continue_others(tx, settings, conversation, by):
        return Refused(NOT_YOURS)
    return _adopt(tx, ids, settings, conversation, token, at)


def may_continue(
    tx: Tx, settings: Settings, conversation: Conversation, by: Author, session: Session
) -> Session | Refused:
    if session.conversation_id != conversation.id and not _may_continue_others(
        tx, settings, conversation, by
    ):
        return Refused(NOT_YOURS)
    return Refused(RETIRED) if session.retired else session


def _may_continue_others(tx: Tx, settings: Settings, conversation: Conversation, by: Author) -> bool:
    """Tell whether they may continue sessions of other conversations."""
    workspace = workspace_of(tx, conversation.id, settings.default_workspace)
    return may(tx, settings.people, by.id, "command.resume.foreign", workspace)


def bind(tx: Tx, settings: Settings, conversation: Conversation, session: Session) -> Conversation:
    """Continue the conversation in this session, changing only the parts of its binding that differ."""
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
    """Store a new session in the conversation's folder. Its token keeps the folder it names, if any."""
    lines = settings.resume_lines.get(token.engine)
    if lines is None or lines.read(token.value) is None:
        return Refused(f"{token.value!r} is not a session of {token.engine}.")
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
    """Tell whether it replies to a message shown here that belongs to another conversation, such as an ask."""
    return _replied_to(tx, message)[1]


def _session_replied_to(
    tx: Tx, settings: Settings, conversation: Conversation, message: InboundMessage
) -> SessionId | None:
    """Return the session that wrote the message replied to, unless it is retired, pruned or of another conversation: a
    reply to a forwarded ask must not bind this conversation to that session."""
    turn, is_elsewhere = _replied_to(tx, message)
    session = None if turn is None or is_elsewhere else tx.sessions.get(turn.session_id)
    if session is None:
        return None
    found = may_continue(tx, settings, conversation, message.author, session)
    return found.id if isinstance(found, Session) else None


def _replied_to(tx: Tx, message: InboundMessage) -> tuple[Turn | None, bool]:
    """Return the turn that wrote the message replied to, and whether it ran in another conversation."""
    row = tx.outbox.find_ref(MessageRef(message.address, message.reply_to)) if message.reply_to else None
    turn = tx.turns.get(row.turn_id) if row is not None and row.turn_id is not None else None
    return turn, row is not None and turn is not None and turn.conversation_id != row.conversation_id


def only_resumes(message: InboundMessage, settings: Settings) -> bool:
    """Tell whether the message is only a resume line, which then acts as `/resume`."""
    token, rest = parse_resume(settings, message.text)
    return token is not None and not (rest or message.file_text or message.attachments)
