"""Puts what we want said into the outbox. Always inside somebody's transaction, never alone."""

from __future__ import annotations

import msgspec

from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import Content, clean_text
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.text import moment

REPLY_KEYS = "reply:"

LATE_S = 120.0
"""What is shown sooner is news."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Content).decode


def reply_key(message: MessageId) -> str:
    """The key of what a command was told."""
    return f"{REPLY_KEYS}{message}"


def say(
    tx: Tx, ids: IdMaker, conversation_id: ConversationId, content: Content, *, key: str, at: float
) -> None:
    """`key` names the occasion: the same one twice is said once."""
    content = msgspec.structs.replace(content, text=clean_text(content.text))
    tx.outbox.put(
        id=MessageId(ids("out")),
        key=key,
        lane=conversation_id,
        conversation_id=conversation_id,
        kind=content.kind,
        body=_encode(content),
        at=at,
        turn_id=content.turn_id,
    )


def is_unseen(tx: Tx, row: QueueRow) -> bool:
    """Whether surely nothing of it stands anywhere: while it waits it may still be withdrawn."""
    return all(part.state == "pending" for part in tx.outbox.parts(row.id))


def content_of(row: QueueRow) -> Content:
    return _decode(row.body)


def content_at(row: QueueRow, now: float) -> Content:
    """As it is shown now: nobody takes what a closed terminal was not shown for news."""
    content = content_of(row)
    if not content.dated or now - row.created_at < LATE_S:
        return content
    when = moment(row.created_at, now)
    return msgspec.structs.replace(content, text=f"{when[0].upper()}{when[1:]}: {content.text}")
