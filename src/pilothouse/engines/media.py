"""Attachments that go to a model, and images that come back from it. Each is judged by its bytes, never by its name.

A program may drop a bad image silently, so sizes, numbers and types are checked here.
"""

from __future__ import annotations

import binascii
import hashlib
from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct

from pilothouse.core.engine import Blobs, MediaFound, Step
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import EngineEvent, MediaProduced, Notice
from pilothouse.core.media import EXTENSIONS, PDF, sniff

MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_TOTAL_BYTES = 50 * 1024 * 1024
MAX_BASE64_CHARS = 25 * 1024 * 1024
MAX_IMAGES = 10
NAME_CHARS = 100

TOO_BIG = f"An image was left out: it is larger than {MAX_BASE64_CHARS >> 20} MB."
TOO_MANY = f"More than {MAX_IMAGES} images came in this turn; the others were left out."
NO_IMAGE = "An image was left out: it is not a PNG, JPEG, GIF or WebP."


class File(Struct, frozen=True):
    name: str
    data: bytes
    media_type: str = ""


class Attached(Struct, frozen=True):
    """`inline` goes with the prompt: images and PDFs, with their type. `others` go into a folder; `refused` says which
    files go nowhere, and why."""

    inline: tuple[File, ...] = ()
    others: tuple[File, ...] = ()
    refused: tuple[str, ...] = ()


def attach(
    files: Sequence[File], program: str, inline_types: Collection[str] = (*EXTENSIONS, PDF)
) -> Attached:
    inline: list[File] = []
    others: list[File] = []
    refused: list[str] = []
    room = MAX_TOTAL_BYTES
    for file in files:
        media_type = sniff(file.data)
        if media_type is None or media_type not in inline_types:
            others.append(file)
        elif why := _refusal(file, room, len(inline)):
            refused.append(f"{show_name(file.name)} was not given to {program}: {why}.")
        else:
            room -= len(file.data)
            inline.append(msgspec.structs.replace(file, media_type=media_type))
    return Attached(tuple(inline), tuple(others), tuple(refused))


def data_url(file: File) -> str:
    return f"data:{file.media_type};base64,{binascii.b2a_base64(file.data, newline=False).decode('ascii')}"


def show_name(name: str) -> str:
    """Return a file's name, which may be hostile, fit for a sentence."""
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


async def keep_media(blobs: Blobs, step: Step) -> EngineEvent:
    """Store the bytes of a `MediaFound`. If that fails, the turn goes on with a notice."""
    if not isinstance(step, MediaFound):
        return step
    try:
        return MediaProduced(await blobs.put(step.data, step.name, step.media_type))
    except PilothouseError as error:
        return Notice("warning", "media_lost", f"{step.name} could not be kept: {error}")


class Pictures:
    """The images of one turn, each once: a program repeats a tool's image in wrappers around its result."""

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
        """Give each reason once."""
        if why in self._told:
            return []
        self._told.add(why)
        return [Notice("warning", "image_skipped", why)]
