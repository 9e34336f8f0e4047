"""How a channel was when somebody last looked: a small fact in the store, for whoever runs in another process."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.ids import ChannelId
from pilothouse.core.store import Tx


class Noted(Struct, frozen=True):
    """`heard_at` is when the platform last answered us; `trouble` is what a person should know, if anything."""

    at: float
    heard_at: float | None = None
    trouble: str = ""


def health_of(tx: Tx, channel: ChannelId) -> Noted | None:
    kept = tx.get_fact(_key(channel))
    return msgspec.json.decode(kept, type=Noted) if kept else None


def note_health(tx: Tx, channel: ChannelId, noted: Noted) -> None:
    tx.set_fact(_key(channel), msgspec.json.encode(noted).decode())


def _key(channel: ChannelId) -> str:
    return f"health:{channel}"
