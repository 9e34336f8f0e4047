"""Edits of messages that a tool sent, and reactions to messages of the turn."""

from __future__ import annotations

import msgspec

from pilothouse.core.channel import CanEdit, CanReact, Channel
from pilothouse.core.ids import ChannelId, MessageId
from pilothouse.core.message import Content
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.agent_calls.caller import Caller, CallRefused, check_live
from pilothouse.runtime.agent_calls.messages import Delivery, find_message, wait_for
from pilothouse.runtime.outbox import Edit, Reaction
from pilothouse.runtime.ports import OUTBOX, Ports

_encode = msgspec.json.Encoder().encode


async def edit(ports: Ports, caller: Caller, number: int, text: str) -> str:
    """Replace the text of a message that a tool sent. Raises `CallRefused`."""
    ref, row = await ports.store.read(lambda tx: find_message(tx, caller, number))
    if row is None:
        raise CallRefused("Only messages that a tool sent can be edited, not those of people.")
    if not text.strip():
        raise CallRefused("The new text is empty. Nothing was changed.")
    channel = _channel(ports, ref.address.channel)
    if not isinstance(channel, CanEdit):
        raise CallRefused(f"Messages of {channel.id} cannot be edited. Send a new one.")
    content = Content(text, "notice", formatted=True, turn_id=caller.turn.id)
    parts = await ports.store.read(lambda tx: tx.outbox.parts(row.id))
    if len(parts) > 1 or len(channel.render(content)) > 1:
        raise CallRefused(f"The text is too long for one message of {channel.id}. Send a new message.")
    done = await _change(ports, caller, row, "edit", _encode(Edit(ref, content)))
    return _told(done, "Edited.", "The edit is queued; you are told in a later turn if it fails.")


async def react(ports: Ports, caller: Caller, number: int, emoji: str) -> str:
    """React to a message of this turn, or to one that a tool sent. Raises `CallRefused`."""
    ref, row = await ports.store.read(lambda tx: find_message(tx, caller, number))
    channel = _channel(ports, ref.address.channel)
    if not isinstance(channel, CanReact):
        raise CallRefused(f"{channel.id} has no reactions.")
    done = await _change(ports, caller, row, "reaction", _encode(Reaction(ref, emoji)))
    return _told(
        done, f"Reacted with {emoji}.", "The reaction is queued; you are told in a later turn if it fails."
    )


def _channel(ports: Ports, id: ChannelId) -> Channel:
    channel = ports.channels.get(id)
    if channel is None:
        raise CallRefused(f"The channel {id} is not open here.")
    return channel


async def _change(ports: Ports, caller: Caller, changed: QueueRow | None, kind: str, body: bytes) -> Delivery:
    place = changed.conversation_id if changed else caller.conversation.id

    def unit(tx: Tx) -> QueueRow:
        check_live(tx, caller)
        return tx.outbox.put(
            id=MessageId(ports.ids("out")),
            key=caller.key,
            conversation_id=place,
            kind=kind,
            body=body,
            at=ports.clock.now(),
            turn_id=caller.turn.id,
        ).row

    row = await ports.store.write(unit)
    ports.signals.poke(OUTBOX)
    return await wait_for(ports, row)


def _told(done: Delivery, delivered: str, queued: str) -> str:
    if done.state == "failed":
        raise CallRefused(f"Not done: {done.why}.")
    return delivered if done.state == "delivered" else queued
