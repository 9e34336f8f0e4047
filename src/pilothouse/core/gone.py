"""Places that put us out: a small fact in the store, for whoever runs in another process."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.ids import ConversationId
from pilothouse.core.store import Tx


class Gone(Struct, frozen=True):
    """A place that put us out, and how."""

    at: float
    why: str


def gone_from(tx: Tx, place: ConversationId) -> Gone | None:
    kept = tx.get_fact(_key(place))
    return msgspec.json.decode(kept, type=Gone) if kept else None


def note_gone(tx: Tx, place: ConversationId, gone: Gone | None) -> None:
    """None if it took us back."""
    tx.set_fact(_key(place), "" if gone is None else msgspec.json.encode(gone).decode())


def _key(place: ConversationId) -> str:
    return f"gone:{place}"
