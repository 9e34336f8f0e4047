"""What one message may bring: clean text, short names, and no more than fits into one prompt."""

from __future__ import annotations

from msgspec.structs import replace

from pilothouse.core.message import InboundMessage, Piece, clean_text, made_of, pieces_of
from pilothouse.runtime.settings import Settings

MAX_FILES = 20
MAX_NAME_CHARS = 200


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
