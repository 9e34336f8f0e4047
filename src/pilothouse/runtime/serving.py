"""Channels that are served although no configuration names them: their mail waits until they are served again."""

from __future__ import annotations

from pilothouse.core.ids import ChannelId
from pilothouse.core.store import Tx

_FACT = "served"


def served_channels(tx: Tx) -> frozenset[ChannelId]:
    return frozenset(map(ChannelId, (tx.get_fact(_FACT) or "").split()))


def note_served(tx: Tx, channel: ChannelId) -> None:
    known = served_channels(tx)
    if channel not in known:
        tx.set_fact(_FACT, " ".join(sorted({*known, channel})))
