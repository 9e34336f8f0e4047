"""Progress that could not be taken away when its turn was over, or before its gateway stopped: a row of the outbox, so that it
is tried for as long as it takes, by the next gateway too.

A chat may have had its share of messages just then. The row stands behind all that was said there before, and holds up
nothing that is said later.
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
"""The kind of such a row. Its body is where the message stands."""

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
    """Whether an answer stands in the place of the progress by now."""
    return tx.outbox.find_ref(_decode(row.body)) is not None


async def remove(channel: Channel, row: QueueRow, within_s: float) -> str:
    """What became of it. Raises what the channel does if it may go better later."""
    if not isinstance(channel, CanDelete):
        return "it cannot be taken away"
    try:
        with anyio.fail_after(within_s):
            await channel.delete(_decode(row.body))
    except Rejected as error:
        return f"it stays: {error.reason}"
    return "taken away"
