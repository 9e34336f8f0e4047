"""Whether somebody may talk to us, asked before anything of theirs is fetched. Shared by every channel."""

from __future__ import annotations

from pilothouse.core.channel import Desk
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.message import InboundMessage, conversation_id


async def may_talk(desk: Desk, message: InboundMessage) -> bool:
    """The desk tells strangers nothing; that is all that we need to know before we fetch."""
    try:
        await desk.query("last_seq", message.author, conversation=conversation_id(message.address))
    except StoreError:
        raise
    except PilothouseError:
        return False
    return True
