"""Images of the conversation: which may enter it, and what replaces one that the provider refuses. Pure.

A provider refuses the whole request for one bad image, and the conversation sends it again with every later request. So an
image is checked before it is kept, and one that is refused nevertheless is left out for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec.structs import replace

from pilothouse.core.media import EXTENSIONS, sniff
from pilothouse.engines.native.messages import Image, Message, Replied

MAX_BASE64_CHARS = 5 * 1024 * 1024
"""Anthropic's limit for one image."""
MAX_BYTES = MAX_BASE64_CHARS // 4 * 3
LEFT_OUT = "[An image stood here. It was left out, because the model's provider refused the request with it.]"


class BadImage(Exception):
    """The image cannot be shown to a model. The text says why, with "it" for the image."""


def check_image(data: bytes) -> str:
    """Return the media type, by the image's bytes. Raises `BadImage`."""
    media_type = sniff(data)
    if media_type not in EXTENSIONS:
        raise BadImage("it is not a PNG, JPEG, GIF or WebP")
    if len(data) > MAX_BYTES:
        raise BadImage(f"it is larger than {MAX_BYTES / 2**20:g} MB")
    return media_type


def newest_images(messages: Sequence[Message]) -> frozenset[str]:
    """Return the names of the images that came after the last reply; of all images if none did."""
    last = max((at for at, message in enumerate(messages) if isinstance(message, Replied)), default=-1)
    return _names(messages[last + 1 :]) or _names(messages)


def without_images(messages: Iterable[Message], names: Collection[str]) -> list[Message]:
    """Replace the named images by a note."""
    return [_without(message, names) for message in messages]


def _names(messages: Sequence[Message]) -> frozenset[str]:
    return frozenset(image.name for message in messages for image in _images(message))


def _images(message: Message) -> tuple[Image, ...]:
    return () if isinstance(message, Replied) else message.images


def _without(message: Message, names: Collection[str]) -> Message:
    if isinstance(message, Replied):
        return message
    kept = tuple(image for image in message.images if image.name not in names)
    notes = [LEFT_OUT] * (len(message.images) - len(kept))
    return replace(message, text="\n\n".join([message.text, *notes]), images=kept) if notes else message
