"""Who somebody is at this moment, and where they are found: the configuration and the store, asked together.

Always inside a transaction: whoever was revoked a moment ago, by whichever process, is nobody any more.
"""

from __future__ import annotations

from pilothouse.core.approvers import Authority, may_say_yes
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, UserId
from pilothouse.core.people import People, Role, allows
from pilothouse.core.store import Tx

MOST_HOMES = 20
"""An ask is shown in at most so many private chats."""


def role_of(tx: Tx, people: People, user: UserId, workspace: str = "") -> Role:
    return people.role(user, workspace, tx.people.of(user))


def may(tx: Tx, people: People, user: UserId, deed: str, workspace: str = "") -> bool:
    return allows(role_of(tx, people, user, workspace), deed)


def note_home(tx: Tx, user: UserId, conversation: Conversation) -> None:
    """Where somebody was last heard in private: what is for them alone is shown there."""
    if conversation.private and tx.get_fact(_home(user)) != conversation.id:
        tx.set_fact(_home(user), conversation.id)


def home_of(tx: Tx, user: UserId) -> ConversationId | None:
    kept = tx.get_fact(_home(user))
    return ConversationId(kept) if kept else None


def homes_of(tx: Tx, people: People, authority: Authority) -> tuple[ConversationId, ...]:
    """The private chats of all who may say yes, as far as they are known."""
    known = {*people.roles, *(user for roles in people.workspaces.values() for user in roles)}
    known |= {grant.user for grant in tx.people.everybody()}
    able = [
        user
        for user in sorted(known)
        if may_say_yes(authority, user, role_of(tx, people, user, authority.workspace))
    ]
    homes = dict.fromkeys(home for user in able if (home := home_of(tx, user)))
    return tuple(homes)[:MOST_HOMES]


def note_name(tx: Tx, user: UserId, name: str) -> None:
    """What somebody was last called when they answered: others should not read an id."""
    if name and tx.get_fact(_name(user)) != name:
        tx.set_fact(_name(user), name)


def name_of(tx: Tx, user: UserId) -> str:
    return tx.get_fact(_name(user)) or user


def _name(user: UserId) -> str:
    return f"name:{user}"


def _home(user: UserId) -> str:
    return f"home:{user}"
