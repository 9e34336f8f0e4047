"""Names of files, as everybody can take them. A name is a name, never a path, whatever somebody called it.

A channel's payload in the stored form of a `Part`, and back. What a person reads of it is the part's own text, so it
is stored once. Shared by every channel that has payloads.
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
    """The last part of a path, without what a terminal or a file system would take for more than a letter."""
    return _clean(name.replace("\\", "/"), ".~-") or otherwise


def sent_name(name: str, otherwise: str) -> str:
    """Of a file that we send: it has its name from this machine, where a dot before it and a backslash in it are nothing
    odd. A backslash is a path elsewhere."""
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
    """The part that carries this payload; `about` is what the channel wants to find beside it."""
    stored = msgspec.json.decode(msgspec.json.encode(payload))
    text = stored.pop("text")
    return Part(text, {**(about or {}), "payload": stored}, attachments)


def read_part(part: Part, decoder: msgspec.json.Decoder[P]) -> P:
    """What to send for a part. A bare text is the payload `message`."""
    stored = part.data.get("payload", {"method": "message"})
    return decoder.decode(msgspec.json.encode({**stored, "text": part.text}))
