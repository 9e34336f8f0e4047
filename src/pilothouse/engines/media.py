"""What people attach -> content blocks for Claude. Pure.

The CLI tells nobody when an image is none (2.1.325 puts a note into the prompt instead), so everything is checked
here: by its bytes, not by its name. PDFs go as documents; anything else is left for a folder, and named in the prompt.

Bytes that came with a turn -> an attachment in the store. What cannot be kept is told, and the turn goes on.

Images in what the engine prints: each once, ten to a turn, none that is too big or is no image.

A tool's image comes several times (in the result, and in wrappers around it), so each is known by its hash.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import Blobs, MediaFound, Step
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import EngineEvent, MediaProduced, Notice
from pilothouse.core.media import EXTENSIONS, PDF, sniff

MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_TOTAL_BYTES = 50 * 1024 * 1024
MAX_IMAGES = 10
NAME_CHARS = 100

MAX_BASE64_CHARS = 25 * 1024 * 1024

TOO_BIG = f"An image was left out: it is larger than {MAX_BASE64_CHARS >> 20} MB."
TOO_MANY = f"More than {MAX_IMAGES} images came in this turn; the others were left out."
NO_IMAGE = "An image was left out: it is no PNG, JPEG, GIF or WebP."


class File(Struct, frozen=True):
    name: str
    data: bytes


class Attached(Struct, frozen=True):
    """`blocks` go with the prompt, `others` into the downloads folder; `refused` says what went nowhere, and why."""

    blocks: tuple[dict[str, Any], ...] = ()
    others: tuple[File, ...] = ()
    refused: tuple[str, ...] = ()


def attach(files: Sequence[File]) -> Attached:
    blocks: list[dict[str, Any]] = []
    others: list[File] = []
    refused: list[str] = []
    room = MAX_TOTAL_BYTES
    for file in files:
        media_type = sniff(file.data)
        if media_type is None:
            others.append(file)
        elif why := _refusal(file, room, len(blocks)):
            refused.append(f"{show_name(file.name)} was not given to Claude: {why}.")
        else:
            room -= len(file.data)
            blocks.append(_block(media_type, file.data))
    return Attached(tuple(blocks), tuple(others), tuple(refused))


def user_content(text: str, attached: Attached) -> str | list[dict[str, Any]]:
    """The content of a stream-json user message."""
    if not attached.blocks:
        return text
    return [{"type": "text", "text": text}, *attached.blocks]


def show_name(name: str) -> str:
    """A stranger's file name, fit for a sentence."""
    return plain_name(name)[:NAME_CHARS] or "a file"


def plain_name(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)


def _refusal(file: File, room: int, taken: int) -> str:
    if taken >= MAX_IMAGES:
        return f"a turn takes {MAX_IMAGES} at most"
    if len(file.data) > MAX_IMAGE_BYTES:
        return f"it is larger than {MAX_IMAGE_BYTES >> 20} MB"
    if len(file.data) > room:
        return f"all of a turn together may have {MAX_TOTAL_BYTES >> 20} MB"
    return ""


def _block(media_type: str, data: bytes) -> dict[str, Any]:
    encoded = binascii.b2a_base64(data, newline=False).decode("ascii")
    source = {"type": "base64", "media_type": media_type, "data": encoded}
    return {"type": "document" if media_type == PDF else "image", "source": source}


async def keep_media(blobs: Blobs, step: Step) -> EngineEvent:
    if not isinstance(step, MediaFound):
        return step
    try:
        return MediaProduced(await blobs.put(step.data, step.name, step.media_type))
    except PilothouseError as error:
        return Notice("warning", "media_lost", f"{step.name} could not be kept: {error}")


class Pictures:
    """Those of one turn."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._kept = 0
        self._told: set[str] = set()

    def take(self, encoded: str) -> list[MediaFound | Notice]:
        if not encoded:
            return []
        if len(encoded) > MAX_BASE64_CHARS:
            return self._refuse(TOO_BIG)
        key = hashlib.sha256(encoded.encode("utf-8", "replace")).digest()
        if key in self._seen:
            return []
        self._seen.add(key)
        if self._kept >= MAX_IMAGES:
            return self._refuse(TOO_MANY)
        return self._keep(encoded)

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
