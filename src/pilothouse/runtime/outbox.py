"""Puts messages into the outbox, always inside the caller's transaction."""

from __future__ import annotations

import msgspec

from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import Content, clean_text
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.text import moment

REPLY_KEYS = "reply:"

LATE_S = 120.0
"""A dated message that is delivered later than this starts with its time."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Content).decode


def reply_key(message: MessageId) -> str:
    """The outbox key of the reply to a command."""
    return f"{REPLY_KEYS}{message}"


def say(
    tx: Tx, ids: IdMaker, conversation_id: ConversationId, content: Content, *, key: str, at: float
) -> None:
    """Queue a message. `key` makes it unique: a second message with the same key is dropped."""
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


def is_unsent(tx: Tx, row: QueueRow) -> bool:
    """True if no part of the row can have been shown, so that it may still be withdrawn."""
    return all(part.state == "pending" for part in tx.outbox.parts(row.id))


def content_of(row: QueueRow) -> Content:
    return _decode(row.body)


def content_at(row: QueueRow, now: float) -> Content:
    """Return the content as shown now: a late dated message starts with its time."""
    content = content_of(row)
    if not content.dated or now - row.created_at < LATE_S:
        return content
    when = moment(row.created_at, now)
    return msgspec.structs.replace(content, text=f"{when[0].upper()}{when[1:]}: {content.text}")
