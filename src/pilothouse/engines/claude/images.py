"""What people attach -> content blocks for Claude. Pure.

The CLI tells nobody when an image is none (2.1.325 puts a note into the prompt instead), so everything is checked
here: by its bytes, not by its name. PDFs go as documents; anything else is left for a folder, and named in the prompt.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from pilothouse.core.media import PDF, sniff

MAX_IMAGE_BYTES = 20 * 1024 * 1024
MAX_TOTAL_BYTES = 50 * 1024 * 1024
MAX_IMAGES = 10
NAME_CHARS = 100


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
