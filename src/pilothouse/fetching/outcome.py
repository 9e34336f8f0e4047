"""What a fetch comes to: bytes, or why there are none. A value, so that nobody has to catch anything."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

Kind = Literal[
    "address", "private", "unreachable", "redirect", "status", "encoded", "too_big", "late", "broken"
]


class Unfetched(Struct, frozen=True):
    """`text` ends a sentence about the file. It never holds the address: that may carry a signature, or be a trap."""

    kind: Kind
    text: str


class Fetch(Protocol):
    async def __call__(self, url: str, limit: int) -> bytes | Unfetched:
        """At most `limit` bytes. Never raises for what an address, a name server or a host does."""
        ...
