"""Removes progress messages that could not be removed at the end of their turn, or before the gateway stopped.

Each is a row of the outbox, so that it is retried as long as needed, also by the next gateway. The row comes after
everything said in the chat before it, and delays nothing that is said later.
"""

from __future__ import annotations

import anyio
import msgspec

from pilothouse.core.channel import CanDelete, Channel
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import IdMaker, MessageId
from pilothouse.core.message import MessageRef
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn

VIEW = "view"
"""Kind of such a row; its body is the reference of the message."""

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


def is_taken(tx: Tx, row: QueueRow) -> bool:
    """Tell whether an answer has replaced the progress message by now."""
    return tx.outbox.find_ref(_decode(row.body)) is not None


async def remove(channel: Channel, row: QueueRow, within_s: float) -> str:
    """Remove the message and return the outcome for the row. Raises the channel's error if a retry may help."""
    if not isinstance(channel, CanDelete):
        return "the channel cannot delete messages"
    try:
        with anyio.fail_after(within_s):
            await channel.delete(_decode(row.body))
    except Rejected as error:
        return f"not removed: {error.reason}"
    return "removed"
