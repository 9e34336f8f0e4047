"""Channel status as facts in the store, so that other processes can read it.

Three kinds: places that removed us, the last health of each channel, and channels that were served without being
configured (their messages wait until they are served again).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.store import Tx
from pilothouse.core.text import span
from pilothouse.runtime.facts import HEALTH, REMOVAL, SERVED, load_fact, save_fact

SILENT_AFTER_S = 300.0
"""A channel that was silent for this long counts as in trouble, even if it reports none."""
NOT_CHECKED = (
    "A gateway runs, but has not checked this channel for {since}. If it should serve it, restart it."
)


class Removal(Struct, frozen=True):
    """The time and the reason of our removal from a place."""

    at: float
    why: str


def removal_from(tx: Tx, place: ConversationId) -> Removal | None:
    return load_fact(tx, REMOVAL.of(place), Removal)


def note_removal(tx: Tx, place: ConversationId, gone: Removal | None) -> None:
    """None clears it: we were added again."""
    save_fact(tx, REMOVAL.of(place), gone)


class HealthNote(Struct, frozen=True):
    """`heard_at` is the platform's last answer; `trouble` is a text for people, if something is wrong.

    `told` is the trouble that owners were last told of, at `told_at`; empty once they were told that it is over."""

    at: float
    heard_at: float | None = None
    trouble: str = ""
    told: str = ""
    told_at: float = 0.0


def health_of(tx: Tx, channel: ChannelId) -> HealthNote | None:
    return load_fact(tx, HEALTH.of(channel), HealthNote)


def note_health(tx: Tx, channel: ChannelId, noted: HealthNote | None) -> None:
    """None clears the note."""
    save_fact(tx, HEALTH.of(channel), noted)


def health_now(tx: Tx, channel: ChannelId, now: float) -> HealthNote | None:
    """The last note, with a trouble added if a live gateway has stopped renewing it."""
    noted = health_of(tx, channel)
    if noted is None or noted.trouble or now - noted.at <= SILENT_AFTER_S:
        return noted
    if not serves_channels(tx, now):
        return noted
    return msgspec.structs.replace(noted, trouble=NOT_CHECKED.format(since=span(now - noted.at)))


def serves_channels(tx: Tx, now: float) -> bool:
    """Tell whether a gateway runs that serves channels. One that was killed is listed until another takes over."""
    return any("channels" in node.roles and node.lease_until > now for node in tx.nodes.list())


def served_channels(tx: Tx) -> frozenset[ChannelId]:
    return frozenset(map(ChannelId, (tx.get_fact(SERVED) or "").split()))


def note_served(tx: Tx, channel: ChannelId) -> None:
    known = served_channels(tx)
    if channel not in known:
        tx.set_fact(SERVED, " ".join(sorted({*known, channel})))
