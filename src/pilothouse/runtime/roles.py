"""Who somebody is at this moment, and where they are found: the configuration and the store, asked together.

Always inside a transaction: whoever was revoked a moment ago, by whichever process, is nobody any more.
"""

from __future__ import annotations

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, UserId
from pilothouse.core.message import Author
from pilothouse.core.people import Authority, People, Role, allows, may_say_yes
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line

MOST_HOMES = 20
"""An ask is shown in at most so many private chats."""


def role_of(tx: Tx, people: People, user: UserId, workspace: str = "") -> Role:
    return people.role(user, workspace, tx.people.of(user))


def may(tx: Tx, people: People, user: UserId, deed: str, workspace: str = "") -> bool:
    return allows(role_of(tx, people, user, workspace), deed)


def note_heard(tx: Tx, by: Author, conversation: Conversation) -> None:
    """What somebody is called, and where they were last heard in private: what is for them alone is shown there."""
    note_name(tx, by.id, by.name)
    if conversation.private and tx.get_fact(_home(by.id)) != conversation.id:
        tx.set_fact(_home(by.id), conversation.id)


def home_of(tx: Tx, user: UserId) -> ConversationId | None:
    kept = tx.get_fact(_home(user))
    return ConversationId(kept) if kept else None


def homes_of(tx: Tx, people: People, authority: Authority) -> tuple[ConversationId, ...]:
    """The private chats of all who may say yes, as far as they are known."""
    return tuple(dict.fromkeys(able_at_home(tx, people, authority).values()))[:MOST_HOMES]


def able_at_home(tx: Tx, people: People, authority: Authority) -> dict[UserId, ConversationId]:
    """All who may say yes and whose private chat is known, with that chat."""
    known = {*people.roles, *(user for roles in people.workspaces.values() for user in roles)}
    known |= {grant.user for grant in tx.people.everybody()}
    able = [
        user
        for user in sorted(known)
        if may_say_yes(authority, user, role_of(tx, people, user, authority.workspace))
    ]
    return {user: home for user in able if (home := home_of(tx, user))}


def note_name(tx: Tx, user: UserId, name: str) -> None:
    """What somebody was last called when they were heard, or answered: others should not read an id."""
    if name and tx.get_fact(_name(user)) != name:
        tx.set_fact(_name(user), name)


def name_of(tx: Tx, user: UserId) -> str:
    return tx.get_fact(_name(user)) or user


def call_by_name(tx: Tx, user: UserId) -> str:
    """Both, on one line: a name is its owner's to choose, the id is not."""
    name = first_line(name_of(tx, user))
    return user if name == user else f"{name} ({user})"


def _name(user: UserId) -> str:
    return f"name:{user}"


def _home(user: UserId) -> str:
    return f"home:{user}"
