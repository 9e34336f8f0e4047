"""Images that a client sends in base64: checked, and kept in the store."""

from __future__ import annotations

import base64
import binascii

from pilothouse.channels.stdio_server import INVALID_PARAMS, RequestError
from pilothouse.core.engine import Blobs
from pilothouse.core.message import Attachment

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})


async def keep_image(blobs: Blobs, kind: str, text: str, number: int) -> Attachment:
    """Store an image. Raises `RequestError` if its type is not known or its text is not base64."""
    if kind not in IMAGE_TYPES:
        known = ", ".join(sorted(IMAGE_TYPES))
        raise RequestError(INVALID_PARAMS, f"The image has the type {kind!r}; possible are {known}.")
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise RequestError(INVALID_PARAMS, f"The image is not base64: {error}.") from error
    return await blobs.put(data, f"image-{number}.{kind.partition('/')[2]}", kind)
