"""What a message still waits for: all that came of it and was not sent yet.

Whoever is here for some messages only is handed what came of these, and what the house says to nobody in particular.
The answers of others are left for them, and hold nothing up.

Collects what waits in the outbox for this node: its channels' mail, and that of single places and messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from pilothouse.core.channel import HoldsMessages, HoldsPlaces
from pilothouse.core.channel_status import served_channels
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ChannelId, ConversationId, MessageId
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.outbox import REPLY_KEYS, reply_key
from pilothouse.runtime.ports import Ports

AT_ONCE = 64

_Asker = tuple[tuple[ConversationId, ...], tuple[MessageId, ...]]
"""The places that somebody holds, and the messages there that they are here for."""


def unsent_of(tx: Tx, row: QueueRow) -> list[QueueRow]:
    """Of what was said in the message's own conversation, oldest first."""
    found = tx.outbox.of_turn(row.turn_id) if row.turn_id else [tx.outbox.by_key(reply_key(row.id))]
    here = [out for out in found if out is not None and out.conversation_id == row.conversation_id]
    return [out for out in here if out.ended_at is None]


def next_for(
    tx: Tx, places: Sequence[ConversationId], messages: Sequence[MessageId], now: float
) -> list[QueueRow]:
    """The first unfinished row of each place that is for whoever sent these messages, if it may go now."""
    sent = [row for row in map(tx.inbox.get, messages) if row is not None]
    heads: list[QueueRow] = []
    for place in places:
        own = [out for row in sent if row.conversation_id == place for out in unsent_of(tx, row)]
        to_nobody = tx.outbox.of_no_turn(place, but=REPLY_KEYS, limit=1)
        head = min([*own, *to_nobody], key=lambda out: out.seq, default=None)
        if head is not None and head.status == "queued" and head.ready_at <= now:
            heads.append(head)
    return heads


class Waiting(Struct, frozen=True):
    """What one look at the store found."""

    ready: list[tuple[QueueRow, Conversation]]
    unknown: list[ChannelId]
    next_at: float | None


class Mail:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        # Asking a channel what it can do is slow, and it does not change.
        found = ports.channels.items()
        self._holders = {id: channel for id, channel in found if isinstance(channel, HoldsPlaces)}

    def look(self, skip: Sequence[ConversationId]) -> Callable[[Tx], Waiting]:
        """All that a round needs to know, in one read. What waits in `skip` waits on."""
        channels, places, askers = self._held()
        known = {*self._ports.settings().known_channels, *self._ports.channels}
        now = self._ports.clock.now()

        def unit(tx: Tx) -> Waiting:
            rows = tx.outbox.deliverable(
                now, channels=channels, conversations=places, skip=skip, limit=AT_ONCE
            )
            for held, messages in askers:
                rows += next_for(tx, [place for place in held if place not in skip], messages, now)
            places_of = tx.conversations.some({row.conversation_id for row in rows})
            return Waiting(
                ready=[(row, places_of[id]) for row in rows if (id := row.conversation_id) in places_of],
                unknown=[
                    channel
                    for channel in tx.outbox.channels_waiting()
                    if channel not in known and channel not in served_channels(tx)
                ],
                next_at=tx.outbox.next_ready_at(now),
            )

        return unit

    def _held(self) -> tuple[list[ChannelId], list[ConversationId], list[_Asker]]:
        """What this node serves: whole channels, single places of channels that others serve too, and single messages
        in such places."""
        channels: list[ChannelId] = []
        places: list[ConversationId] = []
        askers: list[_Asker] = []
        for id in self._ports.channels:
            if (holder := self._holders.get(id)) is None:
                channels.append(id)
            elif isinstance(holder, HoldsMessages) and (messages := holder.messages()) is not None:
                askers.append((holder.holds(), messages))
            else:
                places.extend(holder.holds())
        return channels, places, askers

    async def fail_unknown(self, unknown: Sequence[ChannelId]) -> None:
        """Mail for a channel that nobody has configured is an error that people can see, never "delivered"."""

        def unit(tx: Tx) -> None:
            now = self._ports.clock.now()
            for row in tx.outbox.deliverable(now, channels=unknown, limit=AT_ONCE):
                tx.outbox.claim([row.id])
                tx.outbox.fail(row.id, now, "its channel is not configured")
                place = row.conversation_id
                record(tx, now, APP, "message.undeliverable", message=row.id, conversation=place)
                self._ports.log(
                    "message.undeliverable",
                    level="error",
                    message_id=row.id,
                    conversation=row.conversation_id,
                )

        await self._ports.store.write(unit)
