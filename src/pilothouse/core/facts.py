"""Keys of the store's facts and tallies. Every key is made here, so that two parts never use the same one.

A data folder keeps these keys and their values for years: never change the text of one. A fact that is cleared holds an
empty string. JSON values are of the type named in the docstring. A trigger of the SQLite store keeps one more:
`audit.head`, the hash of the last audit row.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Struct

from pilothouse.core.store import Tx

T = TypeVar("T")


class KeyFamily(Struct, frozen=True):
    """Keys of one kind: one per conversation, channel, user or folder."""

    name: str

    def of(self, id: str) -> str:
        return f"{self.name}:{id}"


STORE_NAME = "store.name"
"""The store's name, given once."""
CONFIGURED_ROLES = "audit.roles"
"""JSON: the roles that the configuration granted when they were last recorded in the audit log."""
PAIRING = "pairing"
"""JSON `Pairing`: the pairing code that was offered last and not used yet."""
SERVED = "served"
"""Channels that were served without being configured, separated by spaces."""

REMOVAL = KeyFamily("gone")
"""By conversation, JSON `Removal`: when and why we were removed from the place."""
MOVED = KeyFamily("moved")
"""By the id that a new address makes, JSON `Moved`: the conversation it stands for, and its former addresses."""
TRIGGER = KeyFamily("trigger")
"""By conversation, JSON `Trigger`: the trigger that a person set there."""
STOPPED = KeyFamily("stopped")
"""By conversation: the platform's time of the last `/stop` that withdrew messages on their way, as a number."""
WISHES = KeyFamily("wishes")
"""By conversation, JSON `Wishes`: what the workspace's own file asks for."""
HEALTH = KeyFamily("health")
"""By channel, JSON `HealthNote`: the last health of the channel."""
NAME = KeyFamily("name")
"""By user: the name to show for them."""
PRIVATE_CHAT = KeyFamily("home")
"""By user: the conversation in which to reach them in private."""
PICKED_MODE = KeyFamily("mode")
"""By resolved folder: the approval mode picked when a chat was first opened there."""
TRUST = KeyFamily("trust")
"""By resolved folder: the mark of the trusted folder; empty if trust was refused or revoked."""

ADDED = KeyFamily("added")
"""Tally by user, and of all under the name alone: strangers who added us to a place."""
PAIR_TRIES = KeyFamily("pair")
"""Tally by user: tries of pairing codes. Under the name alone: wrong tries of everyone."""
REFUSED_ANSWERS = KeyFamily("refused")
"""Tally by user, and of all under the name alone: audited answers of strangers to asks."""
REFUSED_STRANGERS = KeyFamily("told")
"""Tally by user: refusals that a stranger was sent."""
DECLINED = KeyFamily("unwanted")
"""Tally by user: times that an owner refused to let them in."""


def load_fact(tx: Tx, key: str, kind: type[T]) -> T | None:
    """Read a JSON fact; None if it was never set, or cleared."""
    kept = tx.get_fact(key)
    return msgspec.json.decode(kept, type=kind) if kept else None


def save_fact(tx: Tx, key: str, value: Struct | None) -> None:
    """Write a JSON fact; None clears it."""
    tx.set_fact(key, "" if value is None else msgspec.json.encode(value).decode())
