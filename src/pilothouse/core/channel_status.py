"""Places that put us out: a small fact in the store, for whoever runs in another process.

How a channel was when somebody last looked: a small fact in the store, for whoever runs in another process.

Channels that are served although no configuration names them: their mail waits until they are served again.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.store import Tx
from pilothouse.core.text import span

DEAF_S = 300.0
"""A channel of which nothing was heard for so long is in trouble, whatever it says itself."""
UNTENDED = (
    "A gateway runs, but has not looked after this channel for {since}. If it should serve it, restart it."
)

_FACT = "served"


class Gone(Struct, frozen=True):
    """A place that put us out, and how."""

    at: float
    why: str


def gone_from(tx: Tx, place: ConversationId) -> Gone | None:
    kept = tx.get_fact(_gone_key(place))
    return msgspec.json.decode(kept, type=Gone) if kept else None


def note_gone(tx: Tx, place: ConversationId, gone: Gone | None) -> None:
    """None if it took us back."""
    tx.set_fact(_gone_key(place), "" if gone is None else msgspec.json.encode(gone).decode())


def _gone_key(place: ConversationId) -> str:
    return f"gone:{place}"


class Noted(Struct, frozen=True):
    """`heard_at` is when the platform last answered us; `trouble` is what a person should know, if anything.

    `told` is the trouble that the owners were last told of, at `told_at`; empty once they were told that it is over."""

    at: float
    heard_at: float | None = None
    trouble: str = ""
    told: str = ""
    told_at: float = 0.0


def health_of(tx: Tx, channel: ChannelId) -> Noted | None:
    kept = tx.get_fact(_health_key(channel))
    return msgspec.json.decode(kept, type=Noted) if kept else None


def note_health(tx: Tx, channel: ChannelId, noted: Noted | None) -> None:
    """None takes back what was noted."""
    tx.set_fact(_health_key(channel), "" if noted is None else msgspec.json.encode(noted).decode())


def health_now(tx: Tx, channel: ChannelId, now: float) -> Noted | None:
    """For whoever looks from outside: a note that nobody renews, beside a gateway that lives, is no good news."""
    noted = health_of(tx, channel)
    if noted is None or noted.trouble or now - noted.at <= DEAF_S:
        return noted
    if not any("channels" in node.roles and node.lease_until > now for node in tx.nodes.list()):
        return noted
    return msgspec.structs.replace(noted, trouble=UNTENDED.format(since=span(now - noted.at)))


def _health_key(channel: ChannelId) -> str:
    return f"health:{channel}"


def served_channels(tx: Tx) -> frozenset[ChannelId]:
    return frozenset(map(ChannelId, (tx.get_fact(_FACT) or "").split()))


def note_served(tx: Tx, channel: ChannelId) -> None:
    known = served_channels(tx)
    if channel not in known:
        tx.set_fact(_FACT, " ".join(sorted({*known, channel})))
