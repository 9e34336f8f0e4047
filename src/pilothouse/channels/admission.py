"""Whether somebody may talk to us, asked before anything of theirs is fetched; and how what is fetched goes to the desk.
Shared by every channel."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilothouse.core.channel import Desk, Receipt
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


async def accept_fetched(
    desk: Desk, message: InboundMessage, fetch: Callable[[], Awaitable[InboundMessage]]
) -> Receipt:
    """`fetch` gives the message with what came with it. If a `/stop` takes it back meanwhile, it is one that the desk has."""
    with desk.expecting(message):
        return await desk.accept(await fetch())
    return Receipt("duplicate")
