"""A channel's payload as a stored `Part`, and safe names for files. Shared by every channel that has payloads.

The text of a payload is the part's own text, so it is stored once. A file name is never a path.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from pilothouse.core.message import Attachment, Part

NAME_CHARS = 100

P = TypeVar("P", bound=Struct)


def safe_name(name: str, otherwise: str) -> str:
    """Returns the last part of a path without control characters; for a file that a person sent."""
    return _clean(name.replace("\\", "/"), ".~-") or otherwise


def sent_name(name: str, otherwise: str) -> str:
    """Returns the name of a file that we send: a leading dot stays, and a backslash, a path elsewhere, becomes `_`."""
    clean = _clean(name.replace("\\", "_"), "~-")
    return clean if clean.strip(". ") else otherwise


def _clean(path: str, no_first: str) -> str:
    last = path.rpartition("/")[2]
    clean = "".join(c for c in last if unicodedata.category(c)[0] != "C").strip().lstrip(no_first).strip()
    if len(clean) > NAME_CHARS:
        stem, dot, ending = clean.rpartition(".")
        ending = f".{ending}" if dot and len(ending) <= 10 else ""
        clean = (stem or clean)[: NAME_CHARS - len(ending)] + ending
    return clean


def pack(
    payload: Struct, attachments: tuple[Attachment, ...] = (), about: Mapping[str, Any] | None = None
) -> Part:
    """Returns the part for this payload; `about` is stored beside it."""
    stored = msgspec.json.decode(msgspec.json.encode(payload))
    text = stored.pop("text")
    return Part(text, {**(about or {}), "payload": stored}, attachments)


def read_part(part: Part, decoder: msgspec.json.Decoder[P]) -> P:
    """Returns the payload of a part. A part without one is a `message`."""
    stored = part.data.get("payload", {"method": "message"})
    return decoder.decode(msgspec.json.encode({**stored, "text": part.text}))
