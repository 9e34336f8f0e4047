"""Follow a conversation's event log: nothing is missed on reconnect, nothing is shown twice.

The log is the only source. A follower reads what is there, then waits for a hint or for the poll, whichever comes
first, and reads on from the last number that it gave out.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from pilothouse.core.channel import LoggedEvent
from pilothouse.core.errors import StoreUnavailable
from pilothouse.core.ids import ConversationId
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import Signals, events_of

PAGE = 500


async def follow(ports: Ports, conversation_id: ConversationId, after_seq: int) -> AsyncIterator[LoggedEvent]:
    seq = after_seq
    while True:
        ticket = ports.signals.ticket(events_of(conversation_id))
        for logged in await _page(ports, conversation_id, seq):
            seq = logged.seq
            yield logged
            ticket = None
        if ticket is not None:
            await Signals.wait(ticket, ports.settings().poll_s)


async def _page(ports: Ports, conversation_id: ConversationId, seq: int) -> list[LoggedEvent]:
    try:
        return await ports.store.read(lambda tx: tx.events.after(conversation_id, seq, limit=PAGE))
    except StoreUnavailable as error:
        ports.log("follow.postponed", level="warning", error=str(error))
        await ports.clock.sleep(ports.settings().poll_s)
        return []
