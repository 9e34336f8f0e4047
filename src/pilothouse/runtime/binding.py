"""The binding as it works: what a person chose in a conversation, else what its workspace wishes, else its parent's.

A thread is a conversation of its own with a session of its own. Until somebody binds it to something else, it works
where the place that it belongs to works, whichever way that changes.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import parent_id
from pilothouse.core.store import Tx
from pilothouse.runtime.placing import resolve
from pilothouse.runtime.wishes import wishes_of


def bound(tx: Tx, conversation: Conversation) -> Conversation:
    """As it works, with what was inherited. Not to be saved: that would make it a choice."""
    parent, wishes = _parent(tx, conversation.id), wishes_of(tx, conversation.id)
    engine = conversation.engine or wishes.engine or (parent.engine if parent else None)
    inherits_model = parent is not None and engine == parent.engine
    return msgspec.structs.replace(
        conversation,
        workspace=conversation.workspace or (parent.workspace if parent else None),
        engine=engine,
        model=conversation.model or wishes.model or (parent.model if parent and inherits_model else None),
        busy=conversation.busy or wishes.busy or (parent.busy if parent else None),
    )


def workspace_of(tx: Tx, id: ConversationId, default: str) -> str:
    """The folder whose roles hold in a conversation, also before anything was said in it."""
    known, parent = tx.conversations.get(id), _parent(tx, id)
    return (known.workspace if known else None) or (parent.workspace if parent else None) or default


def _parent(tx: Tx, id: ConversationId) -> Conversation | None:
    parent = parent_id(id)
    return None if parent is None else tx.conversations.get(resolve(tx, parent))
