"""Attachments, each as one message of the kind that shows it best; one that Telegram cannot take is named instead."""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.channels.telegram.limits import PHOTO_BYTES, UPLOAD_BYTES
from pilothouse.channels.telegram.payload import Message, Upload, UploadKind
from pilothouse.core.message import Attachment, clean_text

_PHOTOS = frozenset({"image/jpeg", "image/png", "image/webp"})


def render_uploads(attachments: tuple[Attachment, ...]) -> Iterator[tuple[Upload | Message, Attachment]]:
    for file in attachments:
        if file.size > UPLOAD_BYTES:
            size, most = file.size / 1_000_000, UPLOAD_BYTES // 1_000_000
            text = (
                f"{clean_text(file.name)} ({size:.0f} MB) is too large to send here: {most} MB is the most."
            )
            yield Message(text=text), file
        else:
            yield Upload(text="", kind=kind_of(file)), file


def kind_of(file: Attachment) -> UploadKind:
    """A picture that Telegram may shrink, or the file as it is."""
    media_type = file.media_type.partition(";")[0].strip().lower()
    return "photo" if media_type in _PHOTOS and file.size <= PHOTO_BYTES else "document"
