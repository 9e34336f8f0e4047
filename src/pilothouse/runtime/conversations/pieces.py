"""Messages on their way in: their pieces, their limits (clean text, short names, a bounded size), and `/stop`.

Each piece beyond the first has its own row in the inbox, done from the start, that names the row of its message. So a
repeat is recognised piece by piece after a crash, and an edit of any piece finds its message.

`Fetches` are messages whose files are still being fetched, in memory only, because their channel keeps them. `/stop`
withdraws them: a withdrawn row under its own key makes a later arrival a repeat. Messages behind them are known only to
their channel, so the time of the stop is a fact in the store, and they are compared with it when they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import Address, InboundMessage, Piece, clean_text, made_of, pieces_of
from pilothouse.core.queue import CONTROL_WAITLIST, Put, QueueRow
from pilothouse.core.store import Store, Tx
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.places import message_key
from pilothouse.runtime.facts import STOPPED
from pilothouse.runtime.settings import Settings

PIECE = "piece"
MAX_FILES = 20
MAX_NAME_CHARS = 200

_encode = msgspec.json.Encoder().encode


class _PieceOf(Struct, frozen=True):
    message: MessageId


_decode_piece = msgspec.json.Decoder(_PieceOf).decode


def head_of(tx: Tx, address: Address, native_id: str) -> QueueRow | None:
    """Return the row of the message with this id, or of the message that it is a piece of."""
    row = tx.inbox.by_key(message_key(address, native_id))
    return tx.inbox.get(_decode_piece(row.body).message) or row if row and row.kind == PIECE else row


def without_known(tx: Tx, message: InboundMessage) -> InboundMessage | None:
    """Return the message with only the pieces that the inbox lacks; None if it lacks none."""
    pieces = pieces_of(message)
    known = [one for one in pieces if tx.inbox.by_key(message_key(message.address, one.native_id))]
    fresh = [piece for piece in pieces if piece not in known]
    if not known or not fresh:
        return message if fresh else None
    return made_of(replace(message, native_id=fresh[0].native_id), fresh)


def keep_message(
    tx: Tx,
    ids: IdMaker,
    message: InboundMessage,
    place: ConversationId,
    at: float,
    *,
    waitlist: str | None = None,
    ready_at: float = 0.0,
) -> Put:
    """Store a message with its pieces and an audit row. A stored message changes nothing."""
    put = tx.inbox.put(
        id=MessageId(ids("msg")),
        key=message_key(message.address, message.native_id),
        waitlist=waitlist,
        conversation_id=place,
        kind=message.kind,
        body=_encode(message),
        at=at,
        ready_at=ready_at,
    )
    if put.fresh:
        note_pieces(tx, ids, message, put.row, at)
        by, row = message.author.id, put.row
        record(tx, at, by, "sender.accepted", message=row.id, conversation=place, kind=row.kind)
    return put


def note_pieces(tx: Tx, ids: IdMaker, message: InboundMessage, head: QueueRow, at: float) -> None:
    """Store a row for each piece whose key is not the message's own."""
    for piece in pieces_of(message):
        key = message_key(message.address, piece.native_id)
        if key != head.key:
            _note_piece(tx, ids, key, head, at)


def _note_piece(tx: Tx, ids: IdMaker, key: str, head: QueueRow, at: float) -> None:
    put = tx.inbox.put(
        id=MessageId(ids("msg")),
        key=key,
        waitlist=CONTROL_WAITLIST,
        conversation_id=head.conversation_id,
        kind=PIECE,
        body=_encode(_PieceOf(head.id)),
        at=at,
    )
    tx.inbox.claim([put.row.id])
    tx.inbox.done(put.row.id, at, f"a piece of {head.id}")


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
    """Shorten a name: names are chosen by people and go into the prompt."""
    return clean_text(name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…")


def too_much(message: InboundMessage, settings: Settings) -> str:
    """Return why the message is too large; empty if it is not."""
    length, files = len(message.whole_text) + len(message.quoted or ""), len(message.attachments)
    if length > settings.max_message_chars:
        return too_long(length, settings.max_message_chars)
    if files > MAX_FILES:
        return f"Not accepted: your message has {files} files, and one message may have {MAX_FILES}."
    return ""


def too_long(length: int, limit: int) -> str:
    return (
        f"Not accepted: your message has {length:,} characters, and one prompt may have {limit:,}. "
        "Send it as a file, or in parts."
    )


class Fetches:
    def __init__(self) -> None:
        self._fetches: dict[anyio.CancelScope, InboundMessage] = {}

    @contextmanager
    def expecting(self, message: InboundMessage) -> Iterator[None]:
        """Announce the message. The body of the `with` is cancelled once the message was withdrawn."""
        with anyio.CancelScope() as scope:
            self._fetches[scope] = message
            try:
                yield
            finally:
                del self._fetches[scope]

    def messages(self) -> tuple[InboundMessage, ...]:
        return tuple(self._fetches.values())

    async def cancel_withdrawn(self, store: Store) -> None:
        """Cancel the fetches of messages that were withdrawn."""
        fetches = list(self._fetches.items())

        def unit(tx: Tx) -> list[anyio.CancelScope]:
            return [scope for scope, message in fetches if _is_withdrawn(tx, message)]

        for scope in await store.read(unit) if fetches else ():
            scope.cancel()


def _is_withdrawn(tx: Tx, message: InboundMessage) -> bool:
    """Tell whether all pieces were withdrawn: if only the first was, the rest is still to come."""
    row = head_of(tx, message.address, message.native_id)
    return row is not None and row.status == "withdrawn" and without_known(tx, message) is None


def is_stopped(tx: Tx, place: ConversationId, message: InboundMessage) -> bool:
    """Tell whether a chat message was sent before the last stop. Both times are the platform's; equal ones do not count,
    because platforms count in seconds."""
    stopped_at = tx.get_fact(STOPPED.of(place))
    return bool(stopped_at) and message.kind == "chat" and 0 < message.sent_at < float(stopped_at)
