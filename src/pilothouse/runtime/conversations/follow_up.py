"""Follow-ups: messages of the gateway that tell a session what came after its turn, such as the answer of another agent.

A follow-up starts a turn by itself, in the session that it is for, with the cause `system`. It is limited: so many in a row
(`follow_up_depth`), and so many that go back to one turn (`agent_messages`). Beyond that it is a note, which joins the
next turn, and people are told. A message of a person in the same turn begins a new count.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import IdMaker, MessageId, UserId
from pilothouse.core.message import Attachment, Author, Chain, Content, InboundMessage, clean_text
from pilothouse.core.queue import NEVER, QueueRow, notes_waitlist
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import Turn
from pilothouse.runtime.conversations.binding import widest_for
from pilothouse.runtime.facts import CHAIN
from pilothouse.runtime.outbox import say
from pilothouse.runtime.settings import Settings

COUNT_S = 30 * 86_400.0
"""Messages of one chain are counted together for so long."""
HEADING_CHARS = 80
RESPONSE = "[SYSTEM RESPONSE] Action: {action}\nStatus: {status}\nResult: {result}"
WAITS = "↪ {heading}. The agent was not told yet: {why}. It is told with your next message; write “continue” to go on."
TOO_DEEP = "{most} follow-ups in a row are the most"
TOO_MANY = "{most} messages between agents and follow-ups are the most for one request"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InboundMessage).decode


def chain_after(tx: Tx, turn: Turn, heading: str) -> Chain:
    """Return the chain of something that a turn caused: of its follow-up, if its depth is raised by one."""
    session = tx.sessions.get(turn.session_id)
    before = turn.prompt.chain or Chain(turn.id, folder=session.workspace if session else "")
    return replace(
        before,
        heading=first_line(heading, HEADING_CHARS),
        authors=turn.prompt.authors,
        mode=widest_for(tx, turn),
        asker=None,
        agent="",
    )


def put_follow_up(
    tx: Tx,
    ids: IdMaker,
    turn: Turn,
    *,
    key: str,
    heading: str,
    text: str,
    at: float,
    files: Sequence[Attachment] = (),
    starts: bool = True,
) -> None:
    """Tell the session of a turn something. With `starts`, this starts a turn; else it joins the next one.

    `key` makes it unique. `heading` is the cause in a few words, for people."""
    conversation = tx.conversations.get(turn.conversation_id)
    if conversation is None:
        return
    chain = chain_after(tx, turn, heading)
    message = InboundMessage(
        conversation.address,
        Author(UserId("pilothouse:follow-up"), "Pilothouse"),
        key,
        clean_text(text),
        kind="system",
        attachments=tuple(files),
        sent_at=at,
        private=conversation.private,
        session_id=turn.session_id,
        chain=replace(chain, depth=chain.depth + 1),
    )
    _put(tx, ids, conversation, message, key, at, starts=starts)


def may_start(
    tx: Tx, ids: IdMaker, settings: Settings, conversation: Conversation, row: QueueRow, at: float
) -> bool:
    """Tell whether a follow-up may start a turn. Beyond a limit it becomes a note, and people are told."""
    message = _decode(row.body)
    chain = message.chain
    if chain is None:
        return True
    why = _limit(tx, settings, chain, at)
    if not why:
        return True
    tx.inbox.withdraw(row.id, at, why)
    _put(tx, ids, conversation, message, f"{row.key}:note", at, starts=False)
    text = WAITS.format(heading=chain.heading, why=why)
    say(tx, ids, conversation.id, Content(text, "notice"), key=f"waits:{row.id}", at=at)
    return False


def _limit(tx: Tx, settings: Settings, chain: Chain, at: float) -> str:
    if chain.depth > settings.follow_up_depth:
        return TOO_DEEP.format(most=settings.follow_up_depth)
    return too_many(tx, settings, chain, at)


def too_many(tx: Tx, settings: Settings, chain: Chain, at: float) -> str:
    """Return why a chain has no further message; empty if it may have one."""
    most = settings.agent_messages
    return TOO_MANY.format(most=most) if tx.tallied(CHAIN.of(chain.root), at, COUNT_S) >= most else ""


def count(tx: Tx, chain: Chain, at: float) -> None:
    """Count a message of a chain."""
    tx.tally(CHAIN.of(chain.root), at, COUNT_S)


def _put(
    tx: Tx,
    ids: IdMaker,
    conversation: Conversation,
    message: InboundMessage,
    key: str,
    at: float,
    *,
    starts: bool,
) -> None:
    """Put a follow-up. A note belongs to no session and to no chain: it joins the next turn, whatever starts that."""
    message = message if starts else replace(message, session_id=None, chain=None)
    tx.inbox.put(
        id=MessageId(ids("msg")),
        key=key,
        waitlist=None if starts else notes_waitlist(conversation.id),
        conversation_id=conversation.id,
        kind="system",
        body=_encode(message),
        at=at,
        ready_at=0.0 if starts else NEVER,
    )
