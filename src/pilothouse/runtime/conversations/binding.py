"""The binding of a conversation: which workspace, engine, model, busy policy, approval mode and session it uses.

A person's choice wins, then the wishes of the workspace's own file, then the parent's binding. Wishes are stored beside
the binding and rewritten whenever a chat is opened in the folder, so a changed or deleted file leaves nothing behind.

A thread is a conversation with its own session. Until it is bound to something else it inherits its parent's binding.
Where `threads` is "shared", an unbound thread works in its parent's session.

A message may continue an earlier session: that of the answer it replies to, or of a resume line. Members may continue
sessions of their own conversation. Any other session, also one only ever used in a terminal, is for owners, who must
name it: a reply never reaches it. One engine token is one session of ours wherever it is used, so law 2 holds for it.
"""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import BusyPolicy, Conversation, Session, ThreadSessions
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import ConversationId, EngineId, IdMaker, SessionId
from pilothouse.core.message import Address, Author, InboundMessage, MessageRef, parent_id
from pilothouse.core.policy import MODES, ApprovalMode, narrower
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.places import ensure_place, resolve
from pilothouse.runtime.facts import PICKED_MODE, THREADS, WISHES, load_fact, save_fact
from pilothouse.runtime.roles import may
from pilothouse.runtime.settings import Settings


class Wishes(Struct, frozen=True):
    engine: EngineId | None = None
    model: str | None = None
    busy: BusyPolicy | None = None
    show_cost: bool | None = None
    approval_mode: ApprovalMode | None = None
    """Set with a flag when the chat was opened, for as long as it is open; no file can set it."""


NO_WISHES = Wishes()


def wishes_of(tx: Tx, conversation_id: ConversationId) -> Wishes:
    return load_fact(tx, WISHES.of(conversation_id), Wishes) or NO_WISHES


def keep_wishes(tx: Tx, conversation_id: ConversationId, wishes: Wishes) -> None:
    if wishes != wishes_of(tx, conversation_id):
        save_fact(tx, WISHES.of(conversation_id), wishes)


def bound(tx: Tx, conversation: Conversation) -> Conversation:
    """Return the effective binding, with inherited values. Do not save it: that would make them choices."""
    parent, wishes = _parent(tx, conversation.id), wishes_of(tx, conversation.id)
    engine = conversation.engine or wishes.engine or (parent.engine if parent else None)
    inherits_model = parent is not None and engine == parent.engine
    return msgspec.structs.replace(
        conversation,
        workspace=conversation.workspace or (parent.workspace if parent else None),
        engine=engine,
        model=conversation.model or wishes.model or (parent.model if parent and inherits_model else None),
        busy=conversation.busy or wishes.busy or (parent.busy if parent else None),
    )


def workspace_of(tx: Tx, id: ConversationId, default: str) -> str:
    """Return the folder whose roles apply in a conversation, which may not be stored yet: where its session works."""
    known, parent = tx.conversations.get(id), _parent(tx, id)
    chosen = (known.workspace if known else None) or (parent.workspace if parent else None)
    if chosen or known is None or known.session_id is None:
        return chosen or default
    session = tx.sessions.get(known.session_id)
    return (session.workspace if session and not session.retired else "") or default


def engine_of(tx: Tx, id: ConversationId, default: EngineId) -> EngineId:
    """Return the engine that answers in a conversation, which may not be stored yet."""
    known = tx.conversations.get(id)
    if known is None:
        return default
    session = tx.sessions.get(known.session_id) if known.session_id else None
    return bound(tx, known).engine or (session.engine if session else None) or default


def _parent(tx: Tx, id: ConversationId) -> Conversation | None:
    parent = parent_id(id)
    return None if parent is None else tx.conversations.get(resolve(tx, parent))


def chat_mode(tx: Tx, settings: Settings, turn: Turn, workspace: str) -> ApprovalMode | None:
    """Return the mode set by flag for this chat. It applies to turns that people start there, and to those of a
    schedule's own conversation. Work that the gateway starts by itself never gets a wider mode than the folder's."""
    chain, wished = turn.prompt.chain, wishes_of(tx, turn.conversation_id).approval_mode
    if chain is not None:
        return mode_of(tx, settings, workspace, widest_for(tx, turn))
    by_people = turn.cause in ("message", "answer") or split_task_place(turn.conversation_id)[1] is not None
    return wished if by_people else None


def widest_for(tx: Tx, turn: Turn) -> ApprovalMode | None:
    """Return the limit for the approval mode of what a turn causes: the mode of its chat's flag, or a narrower one of
    the turns that caused it. None is no limit."""
    wished = wishes_of(tx, turn.conversation_id).approval_mode
    before = turn.prompt.chain.mode if turn.prompt.chain else None
    return narrowest(wished, before)


def narrowest(one: ApprovalMode | None, other: ApprovalMode | None) -> ApprovalMode | None:
    return narrower(one, other) if one and other else one or other


def mode_of(tx: Tx, settings: Settings, workspace: str, most: ApprovalMode | None) -> ApprovalMode:
    """Return the approval mode of turns that no person starts: that of the folder, or a narrower one of their own."""
    mode = settings.mode_in(workspace) or picked_mode(tx, os.path.realpath(workspace)) or "minimal"
    return mode if most is None else narrower(mode, most)


def picked_mode(tx: Tx, real: str) -> ApprovalMode | None:
    """Return the mode picked when a chat was first opened in this folder."""
    kept = tx.get_fact(PICKED_MODE.of(real))
    return next((mode for mode in MODES if mode == kept), None)


def pick_mode(tx: Tx, workspace: str, mode: ApprovalMode, at: float, by: str) -> None:
    real = os.path.realpath(workspace)
    tx.set_fact(PICKED_MODE.of(real), mode)
    record(tx, at, by, "mode.picked", workspace=real, mode=mode)


def session_owner(tx: Tx, settings: Settings, conversation: Conversation, at: float) -> Conversation:
    """Return the conversation whose session this one uses: itself, or its parent where threads share."""
    address = conversation.address
    own = conversation.workspace is not None or conversation.engine is not None
    if own or address.thread is None or threads_in(tx, settings, conversation) == "own":
        return conversation
    return ensure_place(tx, Address(address.channel, address.place), at)


def threads_in(tx: Tx, settings: Settings, conversation: Conversation) -> ThreadSessions:
    """Return how the threads of this place keep their sessions: as chosen for it, else as configured."""
    parent = parent_id(conversation.id)
    chosen = tx.get_fact(THREADS.of(resolve(tx, parent))) if parent else None
    return "own" if chosen == "own" else "shared" if chosen == "shared" else settings.threads


def set_session(
    tx: Tx, owner: Conversation, conversation: Conversation, session_id: SessionId | None
) -> None:
    """Set the session of both conversations; None starts a new one."""
    for place in {owner.id: owner, conversation.id: conversation}.values():
        if place.session_id != session_id:
            tx.conversations.save(msgspec.structs.replace(place, session_id=session_id))


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
        if lines.word in text.lower():
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
    """A role in the session's own folder is needed too: it may be another than the conversation's."""
    is_own = session.conversation_id == conversation.id
    there = may(
        tx, settings.people, by.id, "desk.accept" if is_own else "command.resume.foreign", session.workspace
    )
    if not there or not (is_own or _may_continue_others(tx, settings, conversation, by)):
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
