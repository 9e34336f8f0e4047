"""What one message may bring: clean text, short names, and no more than fits into one prompt.

Messages that come in pieces: each piece is durable under its own key, and what comes late goes to where it belongs.

A piece beyond the first has a row of its own in the inbox, done from the start, that names the row of its message. So a
repeat is known piece by piece, whatever was taken before a crash, and an edit finds its message by any of them.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import (
    Address,
    Author,
    InboundMessage,
    Piece,
    clean_text,
    conversation_id,
    made_of,
    pieces_of,
)
from pilothouse.core.queue import CONTROL_LANE, NEVER, Put, QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.binding import bound
from pilothouse.runtime.conversations.places import message_key
from pilothouse.runtime.conversations.sessions import aim
from pilothouse.runtime.settings import Settings

MAX_FILES = 20
MAX_NAME_CHARS = 200

PIECE = "piece"
REMEMBERED = 4
"""Of so many messages of one person in one place the rest may still come: several albums, sent at once."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InboundMessage).decode


def cleaned(message: InboundMessage) -> InboundMessage:
    named = replace(
        message,
        quoted=None if message.quoted is None else clean_text(message.quoted),
        author=replace(message.author, name=short_name(message.author.name)),
        source=short_name(message.source),
    )
    return made_of(named, [_cleaned(piece) for piece in pieces_of(message)])


def _cleaned(piece: Piece) -> Piece:
    return replace(
        piece,
        text=clean_text(piece.text),
        file_text=clean_text(piece.file_text),
        attachments=tuple(
            replace(a, name=short_name(a.name), media_type=short_name(a.media_type))
            for a in piece.attachments
        ),
    )


def short_name(name: str) -> str:
    """Names are data that goes into the prompt: nobody has one as long as a book."""
    return clean_text(name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…")


def too_much(message: InboundMessage, settings: Settings) -> str:
    """Why it is too much for one message; empty if it is not."""
    length, files = len(message.whole_text) + len(message.quoted or ""), len(message.attachments)
    if length > settings.max_message_chars:
        return too_long(length, settings.max_message_chars)
    if files > MAX_FILES:
        return f"Your message has {files} files and was not taken: at most {MAX_FILES} go into one message."
    return ""


def too_long(length: int, limit: int) -> str:
    return (
        f"Your message has {length:,} characters and was not taken: at most {limit:,} go into one prompt. "
        "Send it as a file, or in parts."
    )


class _PieceOf(Struct, frozen=True):
    message: MessageId


class _Growing(Struct, frozen=True):
    message: MessageId
    growth: str


_decode_piece = msgspec.json.Decoder(_PieceOf).decode
_decode_growing = msgspec.json.Decoder(list[_Growing]).decode


def head_of(tx: Tx, address: Address, native_id: str) -> QueueRow | None:
    """The row of the message that this is, or is a piece of."""
    row = tx.inbox.by_key(message_key(address, native_id))
    return tx.inbox.get(_decode_piece(row.body).message) or row if row and row.kind == PIECE else row


def without_known(tx: Tx, message: InboundMessage) -> InboundMessage | None:
    """Only the pieces that we do not have, as the rest of those that we have; None if we have them all."""
    pieces = pieces_of(message)
    known = [one for one in pieces if tx.inbox.by_key(message_key(message.address, one.native_id))]
    fresh = [piece for piece in pieces if piece not in known]
    if not known or not fresh:
        return message if fresh else None
    return made_of(replace(message, native_id=fresh[0].native_id, rest_of=known[-1].native_id), fresh)


def keep_message(
    tx: Tx,
    ids: IdMaker,
    message: InboundMessage,
    place: ConversationId,
    at: float,
    *,
    lane: str | None = None,
    ready_at: float = 0.0,
) -> Put:
    """The row of a message, with its pieces and its line in the record. One that we have changes nothing."""
    put = tx.inbox.put(
        id=MessageId(ids("msg")),
        key=message_key(message.address, message.native_id),
        lane=lane or place,
        conversation_id=place,
        kind=message.kind,
        body=_encode(replace(message, growth="")),
        at=at,
        ready_at=ready_at,
    )
    if put.fresh:
        note_pieces(tx, ids, message, put.row, at)
        by, row = message.author.id, put.row
        record(tx, at, by, "sender.accepted", message=row.id, conversation=place, kind=row.kind)
    return put


def grow(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    conversation: Conversation,
    head: QueueRow,
    rest: InboundMessage,
    at: float,
) -> bool:
    """Puts the rest to the message that it belongs to; False, and nothing changes, if that is too late or too much."""
    begun = head.status != "queued" or head.attempts > 0 or _is_being_steered(tx, settings, conversation)
    if begun or head.kind != "chat":
        return False
    said = _decode(head.body)
    whole = made_of(said, (*pieces_of(said), *pieces_of(rest)))
    if said.author.id != rest.author.id or too_much(whole, settings):
        return False
    aimed = aim(tx, ids, settings, conversation, whole, at)
    if aimed.refusal:
        return False
    # A resume line is not in the words any more: the session that it named stays.
    whole = replace(aimed.message, session_id=aimed.message.session_id or said.session_id)
    ready_at = at + rest.linger_s if head in lingering([head], at) else None
    tx.inbox.rewrite(head.id, _encode(whole), ready_at=ready_at)
    note_pieces(tx, ids, rest, head, at)
    return True


def _is_being_steered(tx: Tx, settings: Settings, conversation: Conversation) -> bool:
    """What waits may be on its way into the running turn already."""
    policy = bound(tx, conversation).busy or settings.busy
    return policy == "steer" and tx.turns.live_in(conversation.id) is not None


def note_pieces(tx: Tx, ids: IdMaker, message: InboundMessage, head: QueueRow, at: float) -> None:
    """Each piece under its own key, and the note by which the channel will know the rest."""
    for piece in pieces_of(message):
        _note_piece(tx, ids, message_key(message.address, piece.native_id), head, at)
    if message.growth:
        key = _key(message.address, message.author)
        others = [one for one in _growing(tx, key) if one.message != head.id]
        kept = [_Growing(head.id, message.growth), *others][:REMEMBERED]
        tx.set_fact(key, _encode(kept).decode())


def _note_piece(tx: Tx, ids: IdMaker, key: str, head: QueueRow, at: float) -> None:
    if key == head.key:
        return
    put = tx.inbox.put(
        id=MessageId(ids("msg")),
        key=key,
        lane=CONTROL_LANE,
        conversation_id=head.conversation_id,
        kind=PIECE,
        body=_encode(_PieceOf(head.id)),
        at=at,
    )
    tx.inbox.claim([put.row.id])
    tx.inbox.done(put.row.id, at, f"a piece of {head.id}")


def growths(tx: Tx, address: Address, author: Author) -> tuple[str, ...]:
    """The notes of what somebody said last in a place, the newest first."""
    return tuple(one.growth for one in _growing(tx, _key(address, author)))


def _growing(tx: Tx, key: str) -> list[_Growing]:
    kept = tx.get_fact(key)
    return _decode_growing(kept) if kept else []


def _key(address: Address, author: Author) -> str:
    return f"growing:{conversation_id(address)}:{author.id}"


def lingering(rows: Iterable[QueueRow], at: float) -> list[QueueRow]:
    """Those whose senders may not be done. What was tried before waits for something else."""
    return [row for row in rows if row.attempts == 0 and at < row.ready_at < NEVER]


def let_begin(tx: Tx, place: ConversationId, at: float) -> None:
    """Something else was said: what was said before it is complete, and is not overtaken."""
    for row in lingering(tx.inbox.waiting(place), at):
        tx.inbox.rewrite(row.id, bytes(row.body), ready_at=at)
