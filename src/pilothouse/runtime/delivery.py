"""Claims the outbox and sends: in order within a conversation, side by side between conversations.

A part is marked `sending` before it is sent and `sent` after, so a crash in between leaves a part that may or may
not stand there: it is sent again with a mark that says so, three times at most. A delivered part is never repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from pilothouse.core.channel import Channel, HoldsMessages, HoldsPlaces, Paced
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import Fenced, Rejected, StoreError, StoreUnavailable, TryLater
from pilothouse.core.ids import ChannelId, ConversationId, MessageId, UserId
from pilothouse.core.message import Address, Author, Content, InboundMessage, MessageRef, Part
from pilothouse.core.queue import NEVER, PartRow, QueueRow, notes_lane
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import HOUSE, record
from pilothouse.runtime.awaiting import next_for
from pilothouse.runtime.closing import IN_PLACE, is_said_in_place, put_in_place, shown_asks
from pilothouse.runtime.fencing import fenced_in
from pilothouse.runtime.outgoing import content_of, say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.serving import served_channels
from pilothouse.runtime.settings import backoff_s
from pilothouse.runtime.signals import OUTBOX, Signals
from pilothouse.runtime.wording import first_line

MAX_SENDS = 3
AT_ONCE = 64
UNFIT = "A message could not be prepared for this channel: {text}"
UNREADABLE = "A message of ours could not be read and was set aside. The log has the details."
BROKEN = "A message could not be delivered after {tries} tries and was set aside. The log has the details."
UNCONFIRMED = "A message could not be confirmed as delivered after {sends} tries: {text}"
REFUSED = "A message could not be delivered ({reason}): {text}"

_Asker = tuple[tuple[ConversationId, ...], tuple[MessageId, ...]]
"""The places that somebody holds, and the messages there that they are here for."""


class _Seen(Struct, frozen=True):
    """What one look at the store found."""

    ready: list[tuple[QueueRow, Conversation]]
    unknown: list[ChannelId]
    next_at: float | None


class Delivery:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._busy: set[ConversationId] = set()
        self._sent_at: dict[ConversationId, float] = {}
        # Asking a channel what it can do is slow, and it does not change.
        found = ports.channels.items()
        self._holders = {id: channel for id, channel in found if isinstance(channel, HoldsPlaces)}
        self._paced = {id: channel for id, channel in found if isinstance(channel, Paced)}

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                ticket = self._ports.signals.ticket(OUTBOX)
                pause_s = await self._start_what_is_ready(tasks)
                await Signals.wait(ticket, pause_s)

    async def drain(self, within_s: float) -> None:
        """Returns when nothing is left that could be sent now, or when the time is up."""
        with anyio.move_on_after(within_s):
            while self._busy or (await self._ports.look(self._unit())).ready:
                ticket = self._ports.signals.ticket(OUTBOX)
                await Signals.wait(ticket, 0.05)

    async def _start_what_is_ready(self, tasks: TaskGroup) -> float:
        ports, poll_s = self._ports, self._ports.settings().poll_s
        try:
            seen = await ports.store.read(self._unit())
            if seen.unknown:
                await self._fail_unknown(seen.unknown)
        except Fenced:
            raise
        except StoreError as error:
            ports.log("delivery.postponed", level="warning", error=str(error))
            return poll_s
        for row, conversation in seen.ready[: AT_ONCE - len(self._busy)]:
            self._busy.add(row.conversation_id)
            tasks.start_soon(self._deliver_one, row, conversation.address)
        return poll_s if seen.next_at is None else min(poll_s, max(0.01, seen.next_at - ports.clock.now()))

    def _unit(self) -> Callable[[Tx], _Seen]:
        """All that a round needs to know, in one read."""
        channels, places, askers = self._held()
        known = {*self._ports.settings().known_channels, *self._ports.channels}
        now, skip = self._ports.clock.now(), tuple(self._busy)

        def unit(tx: Tx) -> _Seen:
            rows = tx.outbox.deliverable(
                now, channels=channels, conversations=places, skip=skip, limit=AT_ONCE
            )
            for held, messages in askers:
                rows += next_for(tx, [place for place in held if place not in skip], messages, now)
            places_of = tx.conversations.some({row.conversation_id for row in rows})
            return _Seen(
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

    async def _fail_unknown(self, unknown: Sequence[ChannelId]) -> None:
        """Mail for a channel that nobody has configured is an error that people can see, never "delivered"."""

        def unit(tx: Tx) -> None:
            now = self._ports.clock.now()
            for row in tx.outbox.deliverable(now, channels=unknown, limit=AT_ONCE):
                tx.outbox.claim([row.id])
                tx.outbox.fail(row.id, now, "its channel is not configured")
                place = row.conversation_id
                record(tx, now, HOUSE, "message.undeliverable", message=row.id, conversation=place)
                self._ports.log(
                    "message.undeliverable",
                    level="error",
                    message_id=row.id,
                    conversation=row.conversation_id,
                )

        await self._ports.store.write(unit)

    async def _deliver_one(self, row: QueueRow, address: Address) -> None:
        try:
            await self._deliver(row, address)
        except Exception as error:
            if fenced_in(error):
                raise
            await self._not_delivered(row, error)
        finally:
            self._busy.discard(row.conversation_id)
            self._ports.signals.poke(OUTBOX)

    async def _not_delivered(self, row: QueueRow, error: Exception) -> None:
        """Nothing that one row does stops the others: it is tried again later, and set aside if that does not help."""
        ports, settings = self._ports, self._ports.settings()
        why = f"{type(error).__name__}: {error}"
        ports.log("delivery.postponed", message_id=row.id, turn_id=row.turn_id, level="warning", error=error)
        if isinstance(error, StoreUnavailable):
            await ports.clock.sleep(settings.retry_first_s)
            return
        again_at = ports.clock.now() + backoff_s(settings, row.attempts + 1)
        try:
            await ports.store.write(
                lambda tx: tx.outbox.claim([row.id])
            )  # it may have failed before it was ours
            if row.attempts + 1 < MAX_SENDS:
                await ports.store.write(lambda tx: tx.outbox.retry(row.id, again_at, why))
            else:
                await self._fail(row, BROKEN.format(tries=row.attempts + 1))
        except Exception as also:
            if fenced_in(also):
                raise
            ports.log("delivery.postponed", message_id=row.id, level="warning", error=also)
            await ports.clock.sleep(settings.retry_first_s)

    async def _deliver(self, row: QueueRow, address: Address) -> None:
        ports = self._ports
        if row.kind == "closed":
            await self._close(row, ports.channels[address.channel])
            return
        channel, shown = ports.channels[address.channel], ""
        try:
            content = content_of(row)
            shown = first_line(content.text)
            rendered = channel.render(content)
        except Exception as error:  # noqa: BLE001 - one delivery
            ports.log("message.unfit", message_id=row.id, level="error", error=error)
            await ports.store.write(lambda tx: tx.outbox.claim([row.id]))
            await self._fail(row, UNFIT.format(text=shown) if shown else UNREADABLE)
            return
        parts = await ports.store.write(lambda tx: self._take(tx, row, rendered))
        for part in parts:
            if part.state == "sent":
                continue
            if not await self._send(row, channel, address, part, last=part is parts[-1]):
                return

    async def _close(self, row: QueueRow, channel: Channel) -> None:
        """Edits the question; nothing new is sent, so nothing can stand there twice."""
        ports = self._ports
        shown = await ports.store.write(lambda tx: shown_asks(tx, row) if tx.outbox.claim([row.id]) else [])
        try:
            edited = await put_in_place(channel, content_of(row), shown, ports.settings().send_timeout_s)
        except TryLater as error:
            again_at, why = ports.clock.now() + error.after_s, str(error)
            await ports.persist(lambda tx: tx.outbox.retry(row.id, again_at, why))
        else:
            how = IN_PLACE if edited else "nothing to edit"
            await ports.persist(lambda tx: tx.outbox.done(row.id, ports.clock.now(), how))

    def _take(self, tx: Tx, row: QueueRow, rendered: Sequence[Part]) -> list[PartRow]:
        """Claims the row, stores its parts and marks the first open one as being sent: one transaction.

        The rows are returned as they were *before* that mark: one that was `sending` already is ambiguous.
        """
        if not tx.outbox.claim([row.id]):
            return []
        if is_said_in_place(tx, row):
            tx.outbox.done(row.id, self._ports.clock.now(), "said in place")
            return []
        parts = tx.outbox.store_parts(row.id, rendered)
        first = next((part for part in parts if part.state != "sent"), None)
        if first is None:
            tx.outbox.done(row.id, self._ports.clock.now(), "sent")
        elif first.sends < MAX_SENDS:
            tx.outbox.sending(row.id, first.index)
        return parts

    async def _send(
        self,
        row: QueueRow,
        channel: Channel,
        address: Address,
        part: PartRow,
        *,
        last: bool,
    ) -> bool:
        """Sends one part and records it. False ends the row for now, or for good."""
        ports = self._ports
        if part.sends >= MAX_SENDS:
            await self._fail(row, UNCONFIRMED.format(sends=part.sends, text=first_line(part.part.text)))
            return False
        again = part.state == "sending"
        shown = msgspec.structs.replace(part.part, again=again) if again else part.part
        try:
            await self._pace(channel, row.conversation_id)
            with anyio.fail_after(ports.settings().send_timeout_s):
                ref = await channel.send(address, shown)
        except TryLater as error:
            await self._later(row, part, error.after_s, str(error), showed_nothing=True)
            return False
        except Rejected as error:
            await self._fail(row, REFUSED.format(reason=error.reason, text=first_line(part.part.text)))
            return False
        except Exception as error:  # noqa: BLE001 - one delivery
            # Whether it stands there is not known: the next try carries the mark.
            pause_s = backoff_s(ports.settings(), row.attempts + 1)
            await self._later(row, part, pause_s, f"{type(error).__name__}: {error}", showed_nothing=False)
            return False
        if channel.id in self._paced:
            self._sent_at[row.conversation_id] = ports.clock.monotonic()
        await ports.persist(lambda tx: self._record(tx, row, part, ref, last=last))
        return True

    def _record(self, tx: Tx, row: QueueRow, part: PartRow, ref: MessageRef, *, last: bool) -> None:
        tx.outbox.sent(row.id, part.index, ref)
        if last:
            tx.outbox.done(row.id, self._ports.clock.now(), "sent")
        else:
            following = tx.outbox.parts(row.id)[part.index + 1]
            if following.state == "pending":
                tx.outbox.sending(row.id, following.index)

    async def _pace(self, channel: Channel, conversation_id: ConversationId) -> None:
        """Each conversation has its own clock: one that is hot never slows another."""
        paced, before = self._paced.get(channel.id), self._sent_at.get(conversation_id)
        if paced is not None and before is not None:
            await self._ports.clock.sleep(before + paced.interval_s - self._ports.clock.monotonic())

    async def _later(
        self, row: QueueRow, part: PartRow, after_s: float, why: str, *, showed_nothing: bool
    ) -> None:
        now = self._ports.clock.now()
        self._ports.log("message.postponed", message_id=row.id, turn_id=row.turn_id, after_s=after_s, why=why)

        def unit(tx: Tx) -> None:
            if showed_nothing:
                tx.outbox.pending(row.id, part.index)
            tx.outbox.retry(row.id, now + after_s, why)

        await self._ports.persist(unit)

    async def _fail(self, row: QueueRow, why: str) -> None:
        """It will never stand there: the person and the session are told, whichever way still works."""
        ports, now = self._ports, self._ports.clock.now()
        ports.log("message.failed", level="error", message_id=row.id, turn_id=row.turn_id, why=why)

        def unit(tx: Tx) -> None:
            tx.outbox.fail(row.id, now, why)
            if row.key.startswith("undelivered:"):
                return
            tail = f" /show {row.turn_id} shows it whole." if row.turn_id else ""
            notice = Content(why + tail, "notice")
            say(tx, ports.ids, row.conversation_id, notice, key=f"undelivered:{row.id}", at=now)
            self._tell_session(tx, row, why, now)

        await ports.persist(unit)

    def _tell_session(self, tx: Tx, row: QueueRow, why: str, now: float) -> None:
        conversation = tx.conversations.get(row.conversation_id)
        if conversation is None:
            return
        author = Author(UserId("pilothouse:delivery"), "Pilothouse")
        message = InboundMessage(
            conversation.address, author, f"undelivered:{row.id}", why, kind="system", sent_at=now
        )
        tx.inbox.put(
            id=MessageId(self._ports.ids("msg")),
            key=f"undelivered:{row.id}",
            lane=notes_lane(row.conversation_id),
            conversation_id=row.conversation_id,
            kind="system",
            body=msgspec.json.encode(message),
            at=now,
            ready_at=NEVER,
        )
