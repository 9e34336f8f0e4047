"""A message that a platform brings in several: what it says is made of its pieces, and each is known by its own id. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from pilothouse.core.message import InboundMessage, Piece


def pieces_of(message: InboundMessage) -> tuple[Piece, ...]:
    """One that came whole is its only piece."""
    whole = Piece(
        message.native_id, message.text, attachments=message.attachments, file_text=message.file_text
    )
    return message.pieces or (whole,)


def made_of(message: InboundMessage, pieces: Sequence[Piece]) -> InboundMessage:
    """The message with what these pieces say and bring."""
    whole = len(pieces) == 1 and pieces[0].native_id == message.native_id and not pieces[0].before
    text = ""
    for piece in pieces:
        text += (piece.before if text and piece.text else "") + piece.text
    return replace(
        message,
        text=text,
        attachments=tuple(file for piece in pieces for file in piece.attachments),
        file_text="\n".join(piece.file_text for piece in pieces if piece.file_text),
        pieces=() if whole else tuple(pieces),
    )


def words_of(message: InboundMessage, native_id: str) -> str:
    """What one piece of it says."""
    return next((piece.text for piece in pieces_of(message) if piece.native_id == native_id), "")


def with_words(message: InboundMessage, native_id: str, text: str) -> InboundMessage:
    """One piece says something else; the others stay."""
    return made_of(
        message,
        [replace(one, text=text) if one.native_id == native_id else one for one in pieces_of(message)],
    )
