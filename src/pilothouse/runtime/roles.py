"""Roles, names and private chats of people, from the configuration and the store together.

Always read inside a transaction, so that a role revoked by any process no longer counts.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, Epoch, UserId
from pilothouse.core.message import Author
from pilothouse.core.people import Authority, People, Role, allows, may_say_yes
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.facts import ATTENDED, NAME, PRIVATE_CHAT, USED

MAX_CHATS = 20
"""The most private chats that show one ask."""
AWAY_AFTER_S = 600.0
"""Nobody is at an open terminal from which nothing was sent or answered for so long."""


def role_of(tx: Tx, people: People, user: UserId, workspace: str = "") -> Role:
    return people.role(user, workspace, tx.people.of(user))


def may(tx: Tx, people: People, user: UserId, action: str, workspace: str = "") -> bool:
    return allows(role_of(tx, people, user, workspace), action)


def note_author(tx: Tx, by: Author, conversation: Conversation, at: float) -> None:
    """Remember a person's name, the private chat in which to reach them, and that they are at their terminal."""
    note_name(tx, by.id, by.name)
    note_use(tx, conversation.id, at)
    if conversation.private and tx.get_fact(PRIVATE_CHAT.of(by.id)) != conversation.id:
        tx.set_fact(PRIVATE_CHAT.of(by.id), conversation.id)


def private_chat_of(tx: Tx, user: UserId) -> ConversationId | None:
    kept = tx.get_fact(PRIVATE_CHAT.of(user))
    return ConversationId(kept) if kept else None


def note_attendance(tx: Tx, place: ConversationId, epoch: Epoch | None, at: float) -> None:
    """Note that somebody sits at this node and reads the conversation; with None, that nobody does, as in a script."""
    epochs = [other for other in _attending(tx, place) or [] if other != epoch]
    tx.set_fact(ATTENDED.of(place), msgspec.json.encode([*epochs, *filter(None, [epoch])]).decode())
    if epoch is not None:
        note_use(tx, place, at)


def note_use(tx: Tx, place: ConversationId, at: float) -> None:
    """Note that somebody sent or answered something from a terminal. Other places need no note."""
    terminal = split_task_place(place)[0]
    if tx.get_fact(ATTENDED.of(terminal)):
        tx.set_fact(USED.of(terminal), repr(at))


def is_attended(tx: Tx, place: ConversationId, at: float) -> bool:
    """True unless the place is a terminal that was left, or has not been used for a while. Other channels reach people
    wherever they are."""
    nodes = _attending(tx, place)
    if not nodes:
        return nodes is None
    used = tx.get_fact(USED.of(split_task_place(place)[0]))
    return not used or at - float(used) < AWAY_AFTER_S


def _attending(tx: Tx, place: ConversationId) -> list[Epoch] | None:
    """Return the living nodes that attend the conversation; None if it needs none."""
    kept = tx.get_fact(ATTENDED.of(split_task_place(place)[0]))
    if not kept:
        return None
    living = {node.epoch for node in tx.nodes.list()}
    return [epoch for epoch in msgspec.json.decode(kept, type=list[Epoch]) if epoch in living]


def approver_chats(tx: Tx, people: People, authority: Authority) -> tuple[ConversationId, ...]:
    """Return the known private chats of all who may say yes."""
    return tuple(dict.fromkeys(approvers_with_chat(tx, people, authority).values()))[:MAX_CHATS]


def approvers_with_chat(tx: Tx, people: People, authority: Authority) -> dict[UserId, ConversationId]:
    """Return everyone who may say yes and has a known private chat, with that chat."""
    known = {*people.roles, *(user for roles in people.workspaces.values() for user in roles)}
    known |= {grant.user for grant in tx.people.everybody()}
    able = [
        user
        for user in sorted(known)
        if may_say_yes(authority, user, role_of(tx, people, user, authority.workspace))
    ]
    return {user: home for user in able if (home := private_chat_of(tx, user))}


def note_name(tx: Tx, user: UserId, name: str) -> None:
    """Remember a person's name, to show it to others instead of an id."""
    if name and tx.get_fact(NAME.of(user)) != name:
        tx.set_fact(NAME.of(user), name)


def name_of(tx: Tx, user: UserId) -> str:
    return tx.get_fact(NAME.of(user)) or user


def display_name(tx: Tx, user: UserId) -> str:
    """Return name and id: people choose their name, but not their id."""
    name = first_line(name_of(tx, user))
    return user if name == user else f"{name} ({user})"
