"""Sends the rows of the outbox: in order within a conversation, and conversations side by side.

A part is marked `sending` before it is sent and `sent` after. A crash in between leaves a part that may have arrived: it
is sent again with a mark that says so. A part that was sent is never repeated.

No answer is given up because a platform is down. An unconfirmed message is sent again after growing pauses (`retry.py`).
After the first sends a notice about it is queued behind it, and sent after each failed send. If the notice arrives, the
platform works: a message that is still not confirmed after some more sends is given up.

Changes of sent messages are rows too (`changes.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import anyio
import msgspec
from anyio.abc import TaskGroup

from pilothouse.core.channel import MIN_BYTES_PER_S, Channel, Paced, RendersPlainly
from pilothouse.core.errors import (
    Fenced,
    Rejected,
    StoreError,
    StoreUnavailable,
    TryLater,
    Unconfirmed,
    WantsPlainer,
    find_fenced,
)
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Address, MessageRef, Part
from pilothouse.core.queue import CHANGES, PartRow, QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.text import excerpt
from pilothouse.runtime.asks.settle import is_shown_in_place
from pilothouse.runtime.delivery.changes import apply_change
from pilothouse.runtime.delivery.known_secrets import without_secrets
from pilothouse.runtime.delivery.mail import AT_ONCE, Mail, Waiting
from pilothouse.runtime.delivery.typing_indicator import ViewCalls
from pilothouse.runtime.delivery.undelivered import (
    MAX_SENDS,
    OWN_FAULT_SENDS,
    QUICK_SENDS,
    REFUSED,
    delivery_notice,
    give_up,
    post_notice,
    resend_pause_s,
    retract_notice,
)
from pilothouse.runtime.outbox import content_at, end_key
from pilothouse.runtime.ports import INBOX, OUTBOX, Ports, Signals
from pilothouse.runtime.settings import backoff_s

MAX_BREAKS = 3
SENT = "sent"
UNFIT = "A message could not be prepared for this channel: {text}"
UNREADABLE = "A message of ours could not be read and was set aside. The log has the details."
BROKEN = "A message could not be delivered after {tries} tries and was set aside. The log has the details."
UNCONFIRMED = "A message could not be confirmed as delivered after {sends} tries: {text}"


class Delivery:
    def __init__(self, ports: Ports, calls: ViewCalls) -> None:
        self._ports = ports
        self._calls = calls
        self._busy: set[ConversationId] = set()
        self._sent_at: dict[ConversationId, float] = {}
        self._breaks: dict[MessageId, int] = {}
        self._mail = Mail(ports)
        self._started_at = ports.clock.now()
        # An isinstance check against a protocol is slow, and its result does not change.
        self._paced = {id: one for id, one in ports.channels.items() if isinstance(one, Paced)}

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                ticket = self._ports.signals.ticket(OUTBOX)
                pause_s = await self._start_ready(tasks)
                await Signals.wait(ticket, pause_s)

    async def drain(self, within_s: float) -> None:
        """Return when no row can be sent now, or when the time is up."""
        with anyio.move_on_after(within_s):
            while self._busy or (await self._ports.read(self._unit())).ready:
                ticket = self._ports.signals.ticket(OUTBOX)
                await Signals.wait(ticket, 0.05)

    async def _start_ready(self, tasks: TaskGroup) -> float:
        ports, poll_s = self._ports, self._ports.settings().poll_s
        try:
            seen = await ports.store.read(self._unit())
            if seen.unknown:
                await self._mail.fail_unknown(seen.unknown)
        except Fenced:
            raise
        except StoreError as error:
            ports.log("delivery.postponed", level="warning", error=str(error))
            return poll_s
        for row, conversation in seen.ready[: AT_ONCE - len(self._busy)]:
            self._busy.add(row.conversation_id)
            tasks.start_soon(self._deliver_one, row, conversation.address)
        most_s = poll_s if self._busy else inf
        return most_s if seen.next_at is None else min(most_s, max(0.01, seen.next_at - ports.clock.now()))

    def _unit(self) -> Callable[[Tx], Waiting]:
        return self._mail.look(tuple(self._busy))

    async def _deliver_one(self, row: QueueRow, address: Address) -> None:
        try:
            await self._try(row, address)
        finally:
            self._busy.discard(row.conversation_id)
            self._ports.signals.poke(OUTBOX)

    async def _try(self, row: QueueRow, address: Address) -> None:
        try:
            await self._deliver(row, address)
        except Exception as error:
            if find_fenced(error):
                raise
            await self._not_delivered(row, error)

    async def _not_delivered(self, row: QueueRow, error: Exception) -> None:
        """Retry a row that raised an error, and set it aside after `MAX_BREAKS` errors. Other rows go on."""
        ports, settings = self._ports, self._ports.settings()
        why = f"{type(error).__name__}: {error}"
        ports.log("delivery.postponed", message_id=row.id, turn_id=row.turn_id, level="warning", error=error)
        if isinstance(error, StoreUnavailable):
            await ports.clock.sleep(settings.retry_first_s)
            return
        breaks = self._break(row)
        again_at = ports.clock.now() + backoff_s(settings, breaks)
        try:
            # The error may have come before the claim.
            await ports.store.write(lambda tx: tx.outbox.claim([row.id]))
            if breaks < MAX_BREAKS:
                await ports.store.write(lambda tx: tx.outbox.retry(row.id, again_at, why))
            else:
                await self._fail(row, BROKEN.format(tries=breaks))
        except Exception as also:
            if find_fenced(also):
                raise
            ports.log("delivery.postponed", message_id=row.id, level="warning", error=also)
            await ports.clock.sleep(settings.retry_first_s)

    def _break(self, row: QueueRow) -> int:
        """Count an unexpected error of this row, and return how many there were in this process."""
        self._breaks[row.id] = self._breaks.get(row.id, 0) + 1
        return self._breaks[row.id]

    async def _deliver(self, row: QueueRow, address: Address) -> None:
        ports, channel = self._ports, self._ports.channels[address.channel]
        if row.kind in CHANGES:
            if failed := await apply_change(ports, channel, row):
                await self._fail(row, failed)
            self._breaks.pop(row.id, None)
            return
        content = None
        try:
            content = without_secrets(content_at(row, ports.clock.now()), ports.redact)
            rendered = channel.render(content)
        except Exception as error:  # noqa: BLE001 - one delivery
            ports.log("message.unfit", message_id=row.id, level="error", error=error)
            await ports.store.write(lambda tx: tx.outbox.claim([row.id]))
            shown = excerpt(content) if content else ""
            await self._fail(row, UNFIT.format(text=shown) if shown else UNREADABLE)
            return
        parts = await ports.store.write(lambda tx: self._take(tx, row, rendered))
        if parts and row.turn_id is not None and row.key == end_key(row.turn_id):
            await self._calls.end(row.turn_id)
        for part in parts:
            if part.state == "sent":
                continue
            if not await self._send(row, channel, address, part, last=part is parts[-1]):
                return

    def _take(self, tx: Tx, row: QueueRow, rendered: Sequence[Part]) -> list[PartRow]:
        """Claim the row, store its parts, and mark the first unsent one as `sending`, in one transaction.

        The parts are returned as they were before that mark: one that was `sending` already may have arrived.
        """
        if not tx.outbox.claim([row.id]):
            return []
        if is_shown_in_place(tx, row):
            tx.outbox.done(row.id, self._ports.clock.now(), "said in place")
            return []
        parts = tx.outbox.store_parts(row.id, rendered)
        first = next((part for part in parts if part.state != "sent"), None)
        if first is None:
            tx.outbox.done(row.id, self._ports.clock.now(), SENT)
        elif self._was_cut_short(row, first):
            again_at = self._ports.clock.now() + backoff_s(self._ports.settings(), first.sends)
            tx.outbox.retry(row.id, again_at, "the process died while it was sent")
            return []
        elif first.sends < MAX_SENDS:
            tx.outbox.sending(row.id, first.index)
        return parts

    def _was_cut_short(self, row: QueueRow, part: PartRow) -> bool:
        """Tell whether earlier processes died while sending this part: it must not be the first thing that this one sends."""
        return part.state == "sending" and part.sends >= QUICK_SENDS and row.ready_at <= self._started_at

    async def _send(
        self,
        row: QueueRow,
        channel: Channel,
        address: Address,
        part: PartRow,
        *,
        last: bool,
    ) -> bool:
        """Send one part and record it. False if the row cannot go on now, or was given up."""
        ports = self._ports
        if part.sends >= MAX_SENDS:
            await self._fail(row, UNCONFIRMED.format(sends=part.sends, text=excerpt(part.part)))
            return False
        # `sends` counts only those that may have arrived.
        shown = msgspec.structs.replace(part.part, again=True) if part.sends else part.part
        try:
            await self._pace(channel, row.conversation_id)
            with anyio.fail_after(ports.settings().send_timeout_s + _bytes(part.part) / MIN_BYTES_PER_S):
                ref = await channel.send(address, shown)
        except TryLater as error:
            await self._later(row, part, error.after_s, str(error), showed_nothing=True)
            return False
        except WantsPlainer as error:
            await self._make_plainer(row, channel, part, str(error))
            return False
        except Rejected as error:
            await self._fail(row, REFUSED.format(reason=error.reason, text=excerpt(part.part)))
            return False
        except (Unconfirmed, TimeoutError) as error:
            await self._handle_unconfirmed(row, address, part, f"{type(error).__name__}: {error}")
            return False
        except Exception as error:  # noqa: BLE001 - one delivery
            # A bug in the channel. The part may have arrived, so the next send has the mark.
            if (breaks := self._break(row)) >= MAX_BREAKS:
                await self._fail(row, BROKEN.format(tries=breaks))
                return False
            pause_s = backoff_s(ports.settings(), breaks)
            await self._later(row, part, pause_s, f"{type(error).__name__}: {error}", showed_nothing=False)
            return False
        if channel.id in self._paced:
            self._sent_at[row.conversation_id] = ports.clock.monotonic()
        await ports.persist(lambda tx: self._record(tx, row, part, ref, last=last))
        self._breaks.pop(row.id, None)
        return True

    def _record(self, tx: Tx, row: QueueRow, part: PartRow, ref: MessageRef, *, last: bool) -> None:
        tx.outbox.sent(row.id, part.index, ref)
        if last:
            tx.outbox.done(row.id, now := self._ports.clock.now(), SENT)
            if row.attempts:  # no notice is posted before the first retry
                retract_notice(tx, row, now)
        else:
            following = tx.outbox.parts(row.id)[part.index + 1]
            if following.state == "pending":
                tx.outbox.sending(row.id, following.index)

    async def _pace(self, channel: Channel, conversation_id: ConversationId) -> None:
        """Wait for the channel's interval between messages, which each conversation has for itself."""
        paced, before = self._paced.get(channel.id), self._sent_at.get(conversation_id)
        if paced is not None and before is not None:
            await self._ports.clock.sleep(before + paced.interval_s - self._ports.clock.monotonic())

    async def _handle_unconfirmed(self, row: QueueRow, address: Address, part: PartRow, why: str) -> None:
        """Postpone a part that the platform did not confirm; it may have arrived. Give it up if only this message fails."""
        sends = part.sends + 1
        pause_s = resend_pause_s(self._ports.settings(), sends)
        if sends < QUICK_SENDS:
            await self._later(row, part, pause_s, why, showed_nothing=False)
            return
        told = UNCONFIRMED.format(sends=sends, text=excerpt(part.part))
        notice = await self._ports.read(lambda tx: delivery_notice(tx, row))
        if notice is not None and notice.status == "done" and sends >= OWN_FAULT_SENDS:
            await self._fail(row, told)
            return
        await self._later(row, part, pause_s, why, showed_nothing=False, told=told)
        notice = await self._ports.read(lambda tx: delivery_notice(tx, row))
        if notice is not None and notice.status == "queued" and notice.ready_at <= self._ports.clock.now():
            await self._try(notice, address)

    async def _make_plainer(self, row: QueueRow, channel: Channel, part: PartRow, why: str) -> None:
        """Replace a part whose markup the platform refused by plain parts. The parts before and after it stay."""
        assert isinstance(channel, RendersPlainly), (
            f"{channel.id} raised WantsPlainer but cannot render plainly"
        )
        now = self._ports.clock.now()
        plain = channel.render_plainly(without_secrets(content_at(row, now), self._ports.redact))
        self._ports.log("message.made_plainer", message_id=row.id, turn_id=row.turn_id, why=why)

        def unit(tx: Tx) -> None:
            behind = len(tx.outbox.parts(row.id)) - part.index - 1
            tx.outbox.pending(row.id, part.index)
            tx.outbox.replace_part(row.id, part.index, plain[part.index : len(plain) - behind])
            if part.sends:  # an earlier send may have arrived: keep the mark
                tx.outbox.sending(row.id, part.index)
            tx.outbox.retry(row.id, now, why)

        await self._ports.persist(unit)

    async def _later(
        self, row: QueueRow, part: PartRow, after_s: float, why: str, *, showed_nothing: bool, told: str = ""
    ) -> None:
        """Postpone the row. `told` is the text of a notice for its conversation, if one is due."""
        now = self._ports.clock.now()
        self._ports.log("message.postponed", message_id=row.id, turn_id=row.turn_id, after_s=after_s, why=why)

        def unit(tx: Tx) -> None:
            if showed_nothing:
                tx.outbox.pending(row.id, part.index)
            tx.outbox.retry(row.id, now + after_s, why)
            if told:
                post_notice(tx, self._ports.ids, row, told, now)

        await self._ports.persist(unit)

    async def _fail(self, row: QueueRow, why: str) -> None:
        """Give the row up; people and the session are told."""
        ports, now = self._ports, self._ports.clock.now()
        ports.log("message.failed", level="error", message_id=row.id, turn_id=row.turn_id, why=why)
        self._breaks.pop(row.id, None)
        await ports.persist(lambda tx: give_up(tx, ports.ids, ports.settings(), row, why, now))
        ports.signals.poke(INBOX)


def _bytes(part: Part) -> int:
    return len(msgspec.json.encode(part)) + sum(file.size for file in part.attachments)
