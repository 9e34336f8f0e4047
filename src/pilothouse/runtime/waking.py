"""Turns that an engine began by itself become inbox rows, each with its cause (law 9), and are dispatched as any other.

The row is durable before anybody takes the turn in. A wake's id is its key: told twice, it is one row. It belongs to the
session that it came from, whichever session its conversation has by now.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.engine import Wake, Wakes
from pilothouse.core.ids import EngineId, MessageId, UserId
from pilothouse.core.message import Author, InboundMessage, clean_text
from pilothouse.core.store import Tx
from pilothouse.runtime.fencing import fenced_in
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import INBOX

WAKE = "wake"

_encode = msgspec.json.Encoder().encode


async def listen(ports: Ports, id: EngineId, engine: Wakes) -> None:
    """For as long as the engine is open. One that cannot even tell is left alone: its other turns go on."""
    try:
        async for wake in engine.wakes():
            known = await ports.persist(lambda tx, wake=wake: put_wake(tx, ports, id, wake))
            ports.log("engine.woke", engine=id, session=wake.session_id, cause=wake.cause, known=known)
            ports.signals.poke(INBOX)
    except Exception as error:
        if fenced_in(error):
            raise
        ports.log("engine.wakes_failed", engine=id, level="error", error=error)


def put_wake(tx: Tx, ports: Ports, engine: EngineId, wake: Wake) -> bool:
    """False where the session is not ours."""
    session = tx.sessions.get(wake.session_id)
    conversation = None if session is None else tx.conversations.get(session.conversation_id)
    if session is None or conversation is None:
        return False
    at = ports.clock.now()
    message = InboundMessage(
        conversation.address,
        Author(UserId(f"engine:{engine}"), engine, is_bot=True),
        wake.id,
        clean_text(wake.cause),
        WAKE,
        private=conversation.private,
        sent_at=at,
        session_id=session.id,
    )
    tx.inbox.put(
        id=MessageId(ports.ids("msg")),
        key=f"{conversation.id}|wake:{wake.id}",
        lane=conversation.id,
        conversation_id=conversation.id,
        kind=WAKE,
        body=_encode(message),
        at=at,
    )
    return True
