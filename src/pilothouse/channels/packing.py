"""A channel's payload in the stored form of a `Part`, and back. What a person reads of it is the part's own text, so it
is stored once. Shared by every channel that has payloads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from pilothouse.core.message import Attachment, Part

P = TypeVar("P", bound=Struct)


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
