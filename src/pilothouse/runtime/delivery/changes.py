"""Changes of sent messages, which are rows of the outbox too.

The question of a closed ask is replaced, a leftover progress message is removed, a message is edited or reacted to for an
agent. Changes come after everything said before them, delay nothing that is said later, and may be repeated without harm.
"""

from __future__ import annotations

import anyio
import msgspec

from pilothouse.core.channel import CanDelete, CanEdit, CanReact, Channel
from pilothouse.core.errors import Rejected, TryLater, Unconfirmed
from pilothouse.core.ids import IdMaker, MessageId
from pilothouse.core.message import MessageRef
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.asks.settle import replace_question, shown_asks
from pilothouse.runtime.delivery.known_secrets import without_secrets
from pilothouse.runtime.delivery.undelivered import MAX_SENDS, resend_pause_s
from pilothouse.runtime.outbox import Edit, Reaction, content_of
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
        conversation_id=turn.conversation_id,
        kind=VIEW,
        body=_encode(ref),
        at=at,
    )


async def apply_change(ports: Ports, channel: Channel, row: QueueRow) -> str:
    """Apply a change, or postpone it. Returns why it is given up; empty if it is not."""
    apply = {"closed": _close, "edit": _edit, "reaction": _react}.get(row.kind, _remove)
    try:
        how = await apply(ports, channel, row)
    except Rejected as error:
        await ports.store.write(lambda tx: tx.outbox.claim([row.id]))
        return error.reason
    except TryLater as error:
        return await _postpone(ports, row, str(error), error.after_s)
    except (Unconfirmed, TimeoutError) as error:
        return await _postpone(ports, row, f"{type(error).__name__}: {error}")
    await ports.persist(lambda tx: tx.outbox.done(row.id, ports.clock.now(), how))
    return ""


async def _close(ports: Ports, channel: Channel, row: QueueRow) -> str:
    shown = await ports.store.write(lambda tx: shown_asks(tx, row) if tx.outbox.claim([row.id]) else [])
    content = without_secrets(content_of(row), ports.redact)
    return await replace_question(channel, content, shown, ports.settings().send_timeout_s)


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


async def _edit(ports: Ports, channel: Channel, row: QueueRow) -> str:
    """Raises `Rejected` if it cannot be changed."""
    await ports.store.write(lambda tx: tx.outbox.claim([row.id]))
    change = msgspec.json.decode(row.body, type=Edit)
    parts = channel.render(without_secrets(change.content, ports.redact))
    if not isinstance(channel, CanEdit):
        raise Rejected(f"messages of {channel.id} cannot be edited")
    with anyio.fail_after(ports.settings().send_timeout_s):
        await channel.edit(change.ref, parts[0])
    return "edited"


async def _react(ports: Ports, channel: Channel, row: QueueRow) -> str:
    await ports.store.write(lambda tx: tx.outbox.claim([row.id]))
    reaction = msgspec.json.decode(row.body, type=Reaction)
    if not isinstance(channel, CanReact):
        raise Rejected(f"{channel.id} has no reactions")
    with anyio.fail_after(ports.settings().send_timeout_s):
        await channel.react(reaction.ref, reaction.emoji)
    return "reacted"


async def _postpone(ports: Ports, row: QueueRow, why: str, at_least_s: float = 0.0) -> str:
    tries = row.attempts + 1
    if tries >= MAX_SENDS:
        return UNCHANGED.format(tries=tries, why=why)
    pause_s = max(at_least_s, resend_pause_s(ports.settings(), tries))
    ports.log("message.postponed", message_id=row.id, turn_id=row.turn_id, after_s=pause_s, why=why)
    await ports.persist(lambda tx: tx.outbox.retry(row.id, ports.clock.now() + pause_s, why))
    return ""
