"""Images in what the engine prints: each once, ten to a turn, none that is too big or is no image.

A tool's image comes several times (in the result, and in wrappers around it), so each is known by its hash.
"""

from __future__ import annotations

import binascii
import hashlib

from pilothouse.core.engine import MediaFound
from pilothouse.core.event import Notice
from pilothouse.core.media import EXTENSIONS, sniff
from pilothouse.engines.claude.blocks import Source

MAX_IMAGES = 10
MAX_BASE64_CHARS = 25 * 1024 * 1024

TOO_BIG = f"An image was left out: it is larger than {MAX_BASE64_CHARS >> 20} MB."
TOO_MANY = f"More than {MAX_IMAGES} images came in this turn; the others were left out."
NO_IMAGE = "An image was left out: it is no PNG, JPEG, GIF or WebP."


class Pictures:
    """Those of one turn."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._kept = 0
        self._told: set[str] = set()

    def take(self, source: Source) -> list[MediaFound | Notice]:
        if not source.data:
            return []
        if len(source.data) > MAX_BASE64_CHARS:
            return self._refuse(TOO_BIG)
        key = hashlib.sha256(source.data.encode("utf-8", "replace")).digest()
        if key in self._seen:
            return []
        self._seen.add(key)
        if self._kept >= MAX_IMAGES:
            return self._refuse(TOO_MANY)
        return self._keep(source.data)

    def _keep(self, encoded: str) -> list[MediaFound | Notice]:
        try:
            data = binascii.a2b_base64(encoded)
        except ValueError:
            data = b""
        media_type = sniff(data)
        if media_type not in EXTENSIONS:
            return self._refuse(NO_IMAGE)
        self._kept += 1
        return [MediaFound(f"image-{self._kept}.{EXTENSIONS[media_type]}", media_type, data)]

    def _refuse(self, why: str) -> list[MediaFound | Notice]:
        """Each reason is said once."""
        if why in self._told:
            return []
        self._told.add(why)
        return [Notice("warning", "image_skipped", why)]
