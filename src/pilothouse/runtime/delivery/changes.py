"""Changes of sent messages: the question of a closed ask is replaced, and a leftover progress message is removed.

Each is a row of the outbox, so that it is retried as long as needed, also by the next gateway. The row comes after
everything said in the chat before it, and delays nothing that is said later. Repeating a change does no harm.
"""

from __future__ import annotations

import anyio
import msgspec

from pilothouse.core.channel import CanDelete, Channel
from pilothouse.core.errors import Rejected, TryLater, Unconfirmed
from pilothouse.core.ids import IdMaker, MessageId
from pilothouse.core.message import MessageRef
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.closed import replace_question, shown_asks
from pilothouse.runtime.delivery.retry import MAX_SENDS, resend_pause_s
from pilothouse.runtime.outbox import content_of
from pilothouse.runtime.ports import Ports

VIEW = "view"
"""Kind of the row that removes a progress message; its body is the reference of the message."""
UNCHANGED = "A message could not be changed after {tries} tries: {why}"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(MessageRef).decode


def remove_later(tx: Tx, ids: IdMaker, turn: Turn, ref: MessageRef, at: float) -> None:
    tx.outbox.put(
        id=MessageId(ids("out")),
        key=f"{VIEW}:{turn.id}:{ref.native_id}",
        lane=turn.conversation_id,
        conversation_id=turn.conversation_id,
        kind=VIEW,
        body=_encode(ref),
        at=at,
    )


async def apply_change(ports: Ports, channel: Channel, row: QueueRow) -> str:
    """Apply a change, or postpone it. Returns why it is given up; empty if it is not."""
    apply = _close if row.kind == "closed" else _remove
    try:
        how = await apply(ports, channel, row)
    except TryLater as error:
        return await _postpone(ports, row, str(error), error.after_s)
    except (Unconfirmed, TimeoutError) as error:
        return await _postpone(ports, row, f"{type(error).__name__}: {error}")
    await ports.persist(lambda tx: tx.outbox.done(row.id, ports.clock.now(), how))
    return ""


async def _close(ports: Ports, channel: Channel, row: QueueRow) -> str:
    shown = await ports.store.write(lambda tx: shown_asks(tx, row) if tx.outbox.claim([row.id]) else [])
    return await replace_question(channel, content_of(row), shown, ports.settings().send_timeout_s)


async def _remove(ports: Ports, channel: Channel, row: QueueRow) -> str:
    """Remove a progress message, unless an answer has replaced it by now."""
    ref = _decode(row.body)
    left = await ports.store.write(lambda tx: tx.outbox.claim([row.id]) and tx.outbox.find_ref(ref) is None)
    if not left:
        return "nothing is left"
    if not isinstance(channel, CanDelete):
        return "the channel cannot delete messages"
    try:
        with anyio.fail_after(ports.settings().send_timeout_s):
            await channel.delete(ref)
    except Rejected as error:
        return f"not removed: {error.reason}"
    return "removed"


async def _postpone(ports: Ports, row: QueueRow, why: str, at_least_s: float = 0.0) -> str:
    tries = row.attempts + 1
    if tries >= MAX_SENDS:
        return UNCHANGED.format(tries=tries, why=why)
    pause_s = max(at_least_s, resend_pause_s(ports.settings(), tries))
    ports.log("message.postponed", message_id=row.id, turn_id=row.turn_id, after_s=pause_s, why=why)
    await ports.persist(lambda tx: tx.outbox.retry(row.id, ports.clock.now() + pause_s, why))
    return ""
