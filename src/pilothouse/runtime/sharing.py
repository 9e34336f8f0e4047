"""Whose session a conversation works in: its own, or, where threads share it, that of the place which they belong to.

A thread that was bound to something of its own has a session of its own, whatever is configured.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import SessionId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx
from pilothouse.runtime.placing import ensure_place
from pilothouse.runtime.settings import Settings


def keeper(tx: Tx, settings: Settings, conversation: Conversation, at: float) -> Conversation:
    """The conversation whose session this one works in."""
    address = conversation.address
    own = conversation.workspace is not None or conversation.engine is not None
    if settings.threads == "own" or own or address.thread is None:
        return conversation
    return ensure_place(tx, Address(address.channel, address.place), at)


def keep_session(
    tx: Tx, kept: Conversation, conversation: Conversation, session_id: SessionId | None
) -> None:
    """Both go on in it; None is a new one."""
    for place in {kept.id: kept, conversation.id: conversation}.values():
        if place.session_id != session_id:
            tx.conversations.save(msgspec.structs.replace(place, session_id=session_id))
