"""Finds the outbox rows that this node delivers: those of its channels, and of single places and messages it holds.

A client that holds only some messages is given the replies to these and rows that reply to no message. Replies to other
clients are left for them and delay nothing. Of several processes that show one place, each delivers the replies to the
messages that came in through it; after `LEFT_S` any of them does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from pilothouse.core.channel import HoldsMessages, HoldsPlaces, SharesPlaces
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ChannelId, ConversationId, MessageId
from pilothouse.core.message import parse_inbox_key
from pilothouse.core.queue import CHANGES, QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.channel_status import served_channels
from pilothouse.runtime.outbox import REPLIES, content_of, reply_key
from pilothouse.runtime.ports import Ports

AT_ONCE = 64
LEFT_S = 5.0

_Client = tuple[tuple[ConversationId, ...], tuple[MessageId, ...]]
"""The places that a client holds, and the messages there whose replies it waits for."""


def unsent_of(tx: Tx, row: QueueRow) -> list[QueueRow]:
    """Return the unsent replies to a message in its own conversation, oldest first."""
    found = tx.outbox.of_turn(row.turn_id) if row.turn_id else [tx.outbox.by_key(reply_key(row.id))]
    here = [out for out in found if out is not None and out.conversation_id == row.conversation_id]
    return [out for out in here if out.ended_at is None]


def next_for_client(
    tx: Tx, places: Sequence[ConversationId], messages: Sequence[MessageId], now: float
) -> list[QueueRow]:
    """Return the first unfinished row of each place that is for the sender of these messages, if it is ready."""
    sent = [row for row in map(tx.inbox.get, messages) if row is not None]
    heads: list[QueueRow] = []
    for place in places:
        own = [out for row in sent if row.conversation_id == place for out in unsent_of(tx, row)]
        to_anyone = tx.outbox.of_no_turn(place, but=REPLIES, limit=1)
        head = min([*own, *to_anyone], key=lambda out: out.seq, default=None)
        if head is not None and head.status == "queued" and head.ready_at <= now:
            heads.append(head)
    return heads


def senders_of(tx: Tx, row: QueueRow) -> list[str]:
    """Return the platform's ids of the messages that an outbox row replies to."""
    if row.kind in CHANGES:
        return []
    if (said := content_of(row).reply_to) is not None:
        return [said]
    turn = tx.inbox.of_turn(row.turn_id) if row.turn_id else []
    return [parse_inbox_key(message.key) for message in turn]


class Waiting(Struct, frozen=True):
    """Rows that are ready, channels that are not configured, and when the next row is ready."""

    ready: list[tuple[QueueRow, Conversation]]
    unknown: list[ChannelId]
    next_at: float | None


class Mail:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        # An isinstance check against a protocol is slow, and its result does not change.
        found = ports.channels.items()
        self._holders = {id: channel for id, channel in found if isinstance(channel, HoldsPlaces)}
        self._sharing = {id: channel for id, channel in found if isinstance(channel, SharesPlaces)}

    def look(self, skip: Sequence[ConversationId]) -> Callable[[Tx], Waiting]:
        """Return the read for one delivery round, leaving out the conversations in `skip`."""
        channels, places, clients = self._held()
        known = {*self._ports.settings().known_channels, *self._ports.channels}
        now = self._ports.clock.now()

        def unit(tx: Tx) -> Waiting:
            rows = tx.outbox.deliverable(
                now, channels=channels, conversations=places, skip=skip, limit=AT_ONCE
            )
            for held, messages in clients:
                rows += next_for_client(tx, [place for place in held if place not in skip], messages, now)
            places_of = tx.conversations.some({row.conversation_id for row in rows})
            found = [(row, places_of[id]) for row in rows if (id := row.conversation_id) in places_of]
            left = {row.id: row for row, place in found if self._is_left(tx, row, place.address.channel, now)}
            times = [tx.outbox.next_ready_at(now), *(row.created_at + LEFT_S for row in left.values())]
            return Waiting(
                ready=[(row, place) for row, place in found if row.id not in left],
                unknown=[
                    channel
                    for channel in tx.outbox.channels_waiting()
                    if channel not in known and channel not in served_channels(tx)
                ],
                next_at=min((at for at in times if at is not None), default=None),
            )

        return unit

    def _is_left(self, tx: Tx, row: QueueRow, channel: ChannelId, now: float) -> bool:
        """Tell whether another process should deliver the row."""
        shared = self._sharing.get(channel)
        if shared is None or now - row.created_at >= LEFT_S:
            return False
        senders = senders_of(tx, row)
        return bool(senders) and all(map(shared.was_sent_elsewhere, senders))

    def _held(self) -> tuple[list[ChannelId], list[ConversationId], list[_Client]]:
        """Return what this node serves: whole channels, single places, and clients of single messages."""
        channels: list[ChannelId] = []
        places: list[ConversationId] = []
        clients: list[_Client] = []
        for id in self._ports.channels:
            if (holder := self._holders.get(id)) is None:
                channels.append(id)
            elif isinstance(holder, HoldsMessages) and (messages := holder.messages()) is not None:
                clients.append((holder.holds(), messages))
            else:
                places.extend(holder.holds())
        return channels, places, clients

    async def fail_unknown(self, unknown: Sequence[ChannelId]) -> None:
        """Fail rows for channels that are not configured, with an audit entry and a log line."""

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
