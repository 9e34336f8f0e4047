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
HANDOVER = KeyFamily("handover")
"""By session, JSON `Handover`: the sessions of other engines that it goes on from."""
FORK = KeyFamily("fork")
"""By session, JSON `Fork`: the point of another session that it goes on from, until it has a history of its own."""
OUTAGE = KeyFamily("outage")
"""By engine: the kind of the failure that the owners were told of; empty once a turn completed."""
WATCHERS = KeyFamily("watchers")
"""By pull request, as `owner/name#7`: JSON list of the conversations that its failed checks and reviews wake."""
ATTENDED = KeyFamily("attended")
"""By conversation, JSON list of epochs: the nodes at which somebody may read it. Not set where everybody always can."""
USED = KeyFamily("used")
"""By conversation of a terminal: the time when somebody last sent or answered something there, as a number."""
NAME = KeyFamily("name")
"""By user: the name to show for them."""
PRIVATE_CHAT = KeyFamily("home")
"""By user: the conversation in which to reach them in private."""
PICKED_MODE = KeyFamily("mode")
"""By resolved folder: the approval mode picked when a chat was first opened there, or with `/mode`."""
TRUST = KeyFamily("trust")
"""By resolved folder: the mark of the trusted folder; empty if trust was refused or revoked."""
TRUSTED_CONTENT = KeyFamily("trusted-content")
"""By resolved folder, JSON `TrustedContent`: the files that a person saw when they trusted it."""
TRUST_JAIL = KeyFamily("trust-jail")
"""By resolved folder: `yes` if its owner chose a jail for it when they trusted it."""

ALLOWED_HOSTS = KeyFamily("hosts")
"""By folder, JSON `AllowedHosts`: hosts that people allowed for good to jailed programs there."""
PARKED_QUESTION = KeyFamily("parked")
"""By ask: set while the answer to an agent's question is not awaited by its call any more. `parked`: the agent was told so;
`left`: the call broke, or its time was up."""

THREADS = KeyFamily("threads")
"""By conversation: `own` or `shared`, the sessions of its threads where somebody chose them for this place."""
AGENT_GROUP = KeyFamily("agent-group")
"""By name, JSON `AgentGroup`: a workspace that an agent registered and an admin allowed."""

CHAIN = KeyFamily("chain")
"""Tally by turn: messages between agents, and follow-ups, that go back to this turn."""
ADDED = KeyFamily("added")
"""Tally by user, and of all under the name alone: strangers who added us to a place."""
PAIR_TRIES = KeyFamily("pair")
"""Tally by user: tries of pairing codes. By the hash of a code: wrong tries of everyone while it was offered."""
REFUSED_ANSWERS = KeyFamily("refused")
"""Tally by user: refused answers to asks. Under the name alone: those of all strangers."""
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
