"""The start of a turn: one transaction that picks inbox rows, session and prompt.

The store enforces law 2: if another turn of the session became live in the meantime, nothing is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.errors import SessionBusy
from pilothouse.core.ids import ConversationId, EngineId, IdMaker, SessionId, TurnId
from pilothouse.core.message import BY_PEOPLE, WAKE, Content, InboundMessage
from pilothouse.core.outcome import Failure
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.queue import QueueRow, notes_waitlist
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn
from pilothouse.runtime.audit import record_turn
from pilothouse.runtime.budget.hold import hold, release_hold
from pilothouse.runtime.budget.ledger import reserve
from pilothouse.runtime.conversations.binding import (
    bind,
    bound,
    chat_mode,
    session_owner,
    set_session,
    workspace_of,
)
from pilothouse.runtime.conversations.follow_up import count, may_start
from pilothouse.runtime.conversations.handover import Fork, fork_of, handover_of, lineage
from pilothouse.runtime.outbox import retired_key, say
from pilothouse.runtime.roles import may, name_of, role_of
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.turns.prompt import cause_of, frame, passes_as_typed
from pilothouse.runtime.turns.recap import recap_for, retired_notice, with_recap, write_recap

_decode = msgspec.json.Decoder(InboundMessage).decode


class Started(Struct, frozen=True):
    turn: Turn
    session: Session
    conversation: Conversation
    budget_usd: float | None = None
    """Its share under the day's caps; None without a cap."""
    chat_mode: ApprovalMode | None = None
    fork: Fork | None = None
    """The point of another session that a new one goes on from."""


def start_from_inbox(
    tx: Tx, ids: IdMaker, settings: Settings, conversation_id: ConversationId, at: float
) -> Started | None:
    """Start a turn from the waiting messages of a conversation; None if there is nothing to do."""
    conversation = tx.conversations.get(conversation_id)
    if conversation is None or tx.turns.of(conversation_id, statuses=("queued", "parked"), limit=1):
        return None
    rows = _take_rows(tx, ids, settings, conversation, at)
    if not rows:
        return None
    messages = [_decode(row.body) for row in rows]
    session = (
        _waking_session(tx, messages[0])
        or _requested_session(tx, settings, conversation, messages)
        or open_session(tx, ids, settings, conversation, at)
    )
    before, conversation = conversation, tx.conversations.get(conversation_id) or conversation
    if tx.turns.live(session.id) is not None:
        return None
    turn = Turn(
        TurnId(ids("turn")),
        session.id,
        conversation_id,
        session.engine,
        "running",
        cause_of(messages),
        _recapped(tx, ids, before, session, _prompt(tx, settings, session, messages), at),
        at,
        attempts=1,
        epoch=None,
        started_at=at,
    )
    tx.turns.add(turn)
    tx.inbox.claim([row.id for row in rows], turn_id=turn.id)
    if turn.prompt.is_text_only and turn.prompt.chain is not None:
        count(tx, turn.prompt.chain, at)
    return _started(
        tx, ids, settings, turn, session, conversation, at, [message.author.id for message in messages]
    )


def _recapped(
    tx: Tx, ids: IdMaker, conversation: Conversation, session: Session, prompt: Prompt, at: float
) -> Prompt:
    """Add a recap to the first prompt after a move to this session, or after a retired one."""
    if prompt.wake or prompt.engine_line:
        return prompt
    if handover_of(tx, session.id).is_due:
        return with_recap(prompt, recap_for(tx, conversation.id, session))
    old = tx.sessions.get(conversation.session_id) if conversation.session_id else None
    if old is None or not old.retired or session.turns:
        return prompt
    recap = write_recap(tx, conversation.id, lineage(tx, old.id))
    word = Content(retired_notice(recap), "notice")
    say(tx, ids, conversation.id, word, key=retired_key(old.id), at=at)
    return with_recap(prompt, recap)


def _prompt(tx: Tx, settings: Settings, session: Session, messages: list[InboundMessage]) -> Prompt:
    """Frame the messages, and say whether owners wrote all of it: engines do some things only for owners.

    An engine's own commands count only if one owner typed the whole prompt in private. A reaction may quote another
    person's text. A wake has the authors of the session's last turn."""
    prompt = frame(messages)
    if prompt.wake:
        turns = tx.turns.of(session.conversation_id)
        last = next((turn for turn in turns if turn.session_id == session.id), None)
        return msgspec.structs.replace(prompt, authors=last.prompt.authors if last else ())
    authors = {message.author.id for message in messages}
    owners = all(role_of(tx, settings.people, user, session.workspace) == "owner" for user in authors)
    owners = owners and not any(message.kind == "reaction" for message in messages)
    typed = len(messages) == 1 and passes_as_typed(messages[0])
    return msgspec.structs.replace(prompt, by_owner=owners, commands=owners and typed)


def _waking_session(tx: Tx, message: InboundMessage) -> Session | None:
    """Return the session that woke, if this is a wake. The conversation keeps its own session."""
    woken = message.kind == WAKE and message.session_id
    return tx.sessions.get(message.session_id) if woken and message.session_id else None


def start_again(tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, at: float) -> Started | None:
    """Start a queued turn: one that was lost or parked, or that an answer created."""
    conversation = tx.conversations.get(turn.conversation_id)
    session = tx.sessions.get(turn.session_id)
    if conversation is None or session is None:
        return None
    try:
        moved = tx.turns.move(turn.id, "running", attempts=turn.attempts + 1, started_at=at, retry_at=None)
    except SessionBusy:
        return None
    release_hold(tx, ids, moved, at)
    return _started(tx, ids, settings, moved, session, conversation, at)


def _started(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    turn: Turn,
    session: Session,
    conversation: Conversation,
    at: float,
    who: Sequence[str] = (),
) -> Started | None:
    """Reserve the budget, or hold the turn, and audit why a model is called."""
    reserved = reserve(tx, settings, turn, session, at)
    if reserved is not None and reserved.short is not None:
        hold(tx, ids, settings, turn, session, reserved, at)
        return None
    record_turn(tx, turn, at, who)
    return Started(
        turn,
        session,
        bound(tx, conversation),
        None if reserved is None else reserved.share_usd,
        chat_mode=chat_mode(tx, settings, turn, session.workspace),
        fork=fork_of(tx, session),
    )


def _requested_session(
    tx: Tx, settings: Settings, conversation: Conversation, messages: Sequence[InboundMessage]
) -> Session | None:
    """Return the session that the messages ask for, and bind the conversation to it: but not by a follow-up alone."""
    id = next((message.session_id for message in messages if message.session_id), None)
    session = tx.sessions.get(id) if id else None
    if session is None or session.retired:
        return None
    if any(message.session_id and message.chain is None for message in messages):
        bind(tx, settings, conversation, session)
    return session


def open_session(tx: Tx, ids: IdMaker, settings: Settings, conversation: Conversation, at: float) -> Session:
    """Return the conversation's session if it still fits the binding, else a new one."""
    chosen = bound(tx, conversation)
    engine = chosen.engine or settings.default_engine
    workspace = chosen.workspace or settings.default_workspace
    kept = session_owner(tx, settings, conversation, at)
    if kept.session_id is not None:
        session = tx.sessions.get(kept.session_id)
        fits = session is not None and fits_engine(session, chosen.engine, engine, settings.demo_engine)
        if session is not None and fits and _fits(session, workspace, chosen):
            set_session(tx, kept, conversation, session.id)
            return session
    session = Session(SessionId(ids("session")), kept.id, engine, workspace, at, at, model=chosen.model)
    tx.sessions.add(session)
    set_session(tx, kept, conversation, session.id)
    return session


def fits_engine(session: Session, chosen: EngineId | None, engine: EngineId, demo: EngineId | None) -> bool:
    """Tell whether the session goes on: with the chosen engine, or with its own where nobody chose one.

    A session of the demo gives way as soon as there is a real engine."""
    return session.engine == engine or (chosen is None and session.engine != demo)


def _fits(session: Session, workspace: str, conversation: Conversation) -> bool:
    placed = session.workspace == workspace if conversation.workspace else session.workspace != ""
    return placed and not session.retired


def _take_rows(
    tx: Tx, ids: IdMaker, settings: Settings, conversation: Conversation, at: float
) -> list[QueueRow]:
    """Pick the rows of the next turn: all waiting messages, or only the first, by the busy policy.

    A wake, and a message with `alone`, is a turn by itself. Notes never start a turn; they join the next one, but not a line for
    the engine itself.
    """
    ready = tx.inbox.waiting(conversation.id, ready_by=at, limit=settings.batch_limit)
    if all(row.kind in ("system", "agent") for row in ready):  # a person's message takes follow-ups along
        ready = [
            row for row in ready if row.kind == "agent" or may_start(tx, ids, settings, conversation, row, at)
        ]
    allowed = [row for row in ready if _sender_is_allowed(tx, ids, settings, conversation, row, at)]
    if not allowed:
        return []
    first, *others = allowed
    if first.kind == WAKE:
        return [first]
    message = _decode(first.body)
    if message.engine_line:
        return [first]
    if message.alone or (bound(tx, conversation).busy or settings.busy) == "queue":
        others.clear()
    target = message.session_id or conversation.session_id
    others = takewhile(lambda row: _joins(row, conversation, target), others)
    notes = tx.inbox.waiting(notes_waitlist(conversation.id), limit=settings.batch_limit)
    return sorted([first, *others, *notes], key=lambda row: row.seq)


def _sender_is_allowed(
    tx: Tx, ids: IdMaker, settings: Settings, conversation: Conversation, row: QueueRow, at: float
) -> bool:
    """Drop messages of people whose access was revoked after they wrote."""
    message = _readable(row)
    if message is None or sender_has_access(tx, settings, conversation.id, row):
        return True
    tx.inbox.claim([row.id])
    tx.inbox.fail(row.id, at, "its sender has no access any more")
    text = f"A message from {message.author.name} was dropped: they no longer have access."
    say(tx, ids, conversation.id, Content(text, "notice"), key=f"revoked:{row.id}", at=at)
    return False


def sender_has_access(tx: Tx, settings: Settings, place: ConversationId, row: QueueRow) -> bool:
    """True if the person who wrote the message may still write, here and to the session that it names."""
    message = _readable(row)
    if message is not None and message.chain is not None:
        chain = message.chain
        return all(may(tx, settings.people, user, "desk.accept", chain.folder) for user in chain.authors)
    if message is None or row.kind not in BY_PEOPLE:
        return True
    named = tx.sessions.get(message.session_id) if message.session_id else None
    folders = [workspace_of(tx, place, settings.default_workspace), *([named.workspace] if named else [])]
    return all(may(tx, settings.people, message.author.id, "desk.accept", folder) for folder in folders)


def lost_access(tx: Tx, settings: Settings, turn: Turn) -> Failure | None:
    """Return why a turn that waited may not run: somebody who wrote its prompt has no access any more."""
    session, chain = tx.sessions.get(turn.session_id), turn.prompt.chain
    if session is None or turn.prompt.wake:
        return None
    folder = chain.folder if chain else session.workspace
    for user in turn.prompt.authors:
        if not may(tx, settings.people, user, "desk.accept", folder):
            name = name_of(tx, user)
            return Failure("permission", f"{name} no longer has access, so this does not run.")
    return None


def _joins(row: QueueRow, conversation: Conversation, target: SessionId | None) -> bool:
    """True if the row may be part of the same prompt: messages for different sessions never are."""
    if row.kind == WAKE:
        return False
    message = _decode(row.body)
    return not message.alone and (message.session_id or conversation.session_id) == target


def set_aside(tx: Tx, ids: IdMaker, conversation_id: ConversationId, why: str, at: float) -> None:
    """Something that would begin here cannot be read: it ends, visibly, and the rest goes on."""
    rows = [
        *tx.inbox.waiting(conversation_id, ready_by=at),
        *tx.inbox.waiting(notes_waitlist(conversation_id)),
    ]
    for row in [row for row in rows if not _readable(row)] or rows[:1]:
        tx.inbox.claim([row.id])
        tx.inbox.fail(row.id, at, why)
        text = "A message could not be read and was set aside. The log has the details."
        say(tx, ids, conversation_id, Content(text, "notice"), key=f"quarantine:{row.id}", at=at)


def _readable(row: QueueRow) -> InboundMessage | None:
    """Return the message; None if it cannot be read, which `set_aside` handles."""
    try:
        message = _decode(row.body)
        frame([message])
    except Exception:  # noqa: BLE001 - any error here is the row's fault
        return None
    return message
