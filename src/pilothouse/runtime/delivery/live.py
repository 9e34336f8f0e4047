"""The live view: shows what a turn does while it runs. Not durable, droppable, never delays an answer.

A view is shown when it looks different, at most every `edit_every_s`; elapsed time is part of the view, so it moves
while a tool is silent. Views that a platform lets expire are shown again in time. The progress message is removed when
the turn is no longer live. Turns younger than `first_view_s` are not read at all, and the log of an older one is read
only when something is to be shown: a quick turn costs nothing here. A message that can no longer be edited is replaced
by a new one; one that cannot be removed now is left to the outbox. Errors are logged and cost only the view.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from math import inf

import anyio
from anyio.abc import TaskGroup

from pilothouse.core.channel import (
    PAGE,
    CanDelete,
    CanEdit,
    Channel,
    FindsViews,
    LoggedEvent,
    RenewsViews,
    WithdrawsViews,
    serves,
)
from pilothouse.core.errors import (
    CannotEdit,
    Fenced,
    Rejected,
    StoreError,
    TryLater,
    Unconfirmed,
    find_fenced,
)
from pilothouse.core.event import SessionStarted
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Address, MessageRef, Part
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.delivery.changes import remove_later
from pilothouse.runtime.delivery.known_secrets import without_secrets
from pilothouse.runtime.delivery.typing_indicator import TypingIndicators, ViewCalls
from pilothouse.runtime.ports import OUTBOX, TURNS, Ports, Signals, end_of

CHECK_SHARE = 0.2
"""Share of `edit_every_s` between two checks for new turns, so that turns that start together cost one check."""

REMOVE_TRIES = 5
"""Tries to remove a progress message before it becomes a row of the outbox."""


class LiveViews:
    """Finds the live turns on channels that can edit, and shows each until it ends."""

    def __init__(self, ports: Ports, calls: ViewCalls) -> None:
        self._ports = ports
        self._calls = calls
        self._shown: set[TurnId] = set()
        self._due: dict[TurnId, float] = {}
        """When each young turn will be shown, by the monotonic clock."""
        self._typing = TypingIndicators(ports, calls)
        """Shares the query for live turns."""
        self._open: set[ProgressMessage] = set()
        self._leaving = False
        self._has_turns = False
        """A turn was live at the last look, or that look failed."""
        self._all_removed = anyio.Event()

    async def clear(self, within_s: float) -> None:
        """Remove every progress message while the channels still run, and show no new one. The rest is left to the next
        gateway."""
        self._leaving, self._all_removed = True, anyio.Event()
        for progress in self._open:
            progress.leave()
        if self._open:
            with anyio.move_on_after(within_s):
                await self._all_removed.wait()
            await _leave_to_outbox(self._ports, self._open)

    async def run(self) -> None:
        can_edit = any(isinstance(channel, CanEdit) for channel in self._ports.channels.values())
        if not can_edit and not self._typing.is_possible:
            return
        async with anyio.create_task_group() as tasks:
            while True:
                settings = self._ports.settings()
                ticket = self._ports.signals.ticket(TURNS)
                for progress in await self._changes(tasks):
                    tasks.start_soon(self._show, progress)
                await Signals.wait(ticket, self._pause_s(settings.poll_s if self._has_turns else inf))
                await anyio.sleep(settings.edit_every_s * CHECK_SHARE)

    async def _changes(self, tasks: TaskGroup) -> list[ProgressMessage]:
        """Forget turns that ended and return those that are due. A view that failed is not tried again."""
        read = self._ports.store.read
        try:
            live = await read(lambda tx: tx.turns.of(statuses=tuple(LIVE), limit=500))
            self._has_turns = bool(live)
            await self._typing.update(live, tasks)
            due = self._take_due(live)
            places = (
                await read(lambda tx: tx.conversations.some(turn.conversation_id for turn in due))
                if due
                else {}
            )
        except StoreError as error:
            self._ports.log("live.postponed", level="warning", error=str(error))
            self._has_turns = True
            return []
        return [
            ProgressMessage(self._ports, self._calls, turn, place.address, channel)
            for turn in due
            if (place := places.get(turn.conversation_id)) is not None
            and isinstance(channel := self._ports.channels.get(place.address.channel), CanEdit)
            and serves(channel, place.id)
        ]

    def _take_due(self, live: list[Turn]) -> list[Turn]:
        first_s, clock = self._ports.settings().first_view_s, self._ports.clock
        now = clock.monotonic()
        self._shown &= {turn.id for turn in live}
        young = [turn for turn in live if turn.id not in self._shown]
        self._due = {
            turn.id: self._due.get(turn.id, now + self._first_wait_s(turn, first_s)) for turn in young
        }
        due = [turn for turn in young if self._due[turn.id] <= now]
        for turn in due:
            del self._due[turn.id]
            self._shown.add(turn.id)
        return due

    def _first_wait_s(self, turn: Turn, first_s: float) -> float:
        """Return the time until a turn is shown, at most `first_s` even if the clock jumped."""
        age_s = self._ports.clock.now() - (turn.started_at or 0.0)
        return min(first_s, max(0.0, first_s - age_s))

    def _pause_s(self, at_most_s: float) -> float:
        next_at = min(self._due.values(), default=float("inf"))
        return min(at_most_s, max(0.0, next_at - self._ports.clock.monotonic()))

    async def _show(self, progress: ProgressMessage) -> None:
        try:
            await self._show_until_over(progress)
        except Rejected as error:  # we may be removed from a place at any time: not an error
            self._ports.log("live.dropped", turn_id=progress.turn.id, error=error.reason)
        except Exception as error:
            if find_fenced(error):
                raise
            self._ports.log("live.dropped", turn_id=progress.turn.id, level="error", error=error)
        else:
            self._shown.discard(progress.turn.id)  # a parked turn may be live again before the next check

    async def _show_until_over(self, progress: ProgressMessage) -> None:
        """Show it until its turn ends or the gateway stops; both remove it."""
        if self._leaving:
            return
        self._open.add(progress)
        try:
            await progress.run()
        finally:
            self._open.discard(progress)
            if not self._open:
                self._all_removed.set()


async def _leave_to_outbox(ports: Ports, shown: Collection[ProgressMessage]) -> None:
    """Store what is still shown as outbox rows, which are retried and outlive this process."""
    now, left = ports.clock.now(), [(progress.turn, ref) for progress in shown for ref in progress.shown_refs]
    if not left:
        return

    def unit(tx: Tx) -> None:
        for turn, ref in left:
            remove_later(tx, ports.ids, turn, ref, now)

    try:
        await ports.store.write(unit)
    except Fenced:
        raise
    except StoreError as error:
        ports.log("live.left", level="warning", error=str(error))


class ProgressMessage:
    """One progress message: sent, edited while it changes, removed at the end."""

    def __init__(
        self, ports: Ports, calls: ViewCalls, turn: Turn, address: Address, channel: Channel
    ) -> None:
        self.turn = turn
        self._ports = ports
        self._calls = calls
        self._address = address
        self._channel = channel
        self._view = TurnView(turn_id=turn.id)
        self._ref: MessageRef | None = None
        self._is_renewed = False
        self._to_remove: list[MessageRef] = []
        """Messages still to be removed."""
        self._last: Part | None = None
        self._last_at = 0.0
        """When it was last shown, by the monotonic clock."""
        self._unsure: Part | None = None
        """A first message whose send was not confirmed."""
        self._seq: int | None = None
        self._leaving = False

    @property
    def shown_refs(self) -> list[MessageRef]:
        """The messages that would have to be removed now."""
        return [*self._to_remove, *([] if self._ref is None else [self._ref])]

    async def run(self) -> None:
        pause_s = 0.0
        try:
            while not await self._ends_within(pause_s) and not self._leaving:
                await self._refresh()
                pause_s = self._ports.settings().edit_every_s
        finally:
            await self._remove()

    def leave(self) -> None:
        """End soon. A send under way finishes first: without its reference the message could not be removed."""
        self._leaving = True
        self._ports.signals.poke(end_of(self.turn.id))

    async def _ends_within(self, seconds: float) -> bool:
        """Wait, then fold new events into the view. True once the turn is no longer live."""
        await Signals.wait(self._ports.signals.ticket(end_of(self.turn.id)), seconds)
        while True:
            events, live = await self._ports.read(self._page)
            for logged in events:
                self._seq = logged.seq
                if logged.turn_id != self.turn.id:
                    continue
                if isinstance(logged.event, SessionStarted):
                    self._view = TurnView(turn_id=self.turn.id)
                self._view = fold(self._view, logged.event, logged.at)
            if len(events) < PAGE:
                return not live

    def _page(self, tx: Tx) -> tuple[list[LoggedEvent], bool]:
        current = tx.turns.get(self.turn.id)
        live = current is not None and current.status in LIVE
        if self._seq is None:
            return tx.events.of_turn(self.turn.id, limit=PAGE), live
        return tx.events.after(self.turn.conversation_id, self._seq, limit=PAGE), live

    async def _refresh(self) -> None:
        """Show the view if it changed. A refused update is not repeated: the next view may differ."""
        if not isinstance(self._channel, CanEdit):
            return
        view = without_secrets(self._view, self._ports.redact)
        part = self._channel.render_view(view, self._ports.clock.now())
        if part is None or (part == self._last and not self._needs_renewal()):
            return
        now = self._ports.clock.monotonic()
        ended = self._ports.signals.ticket(end_of(self.turn.id))
        try:
            with anyio.fail_after(self._ports.settings().send_timeout_s):
                await self._update(self._channel, part)
                self._last_at = now
                if isinstance(self._channel, CanDelete):
                    await self._delete_all(self._channel)
        except TryLater as error:
            await self._skip(ended, error, error.after_s)
        except (Unconfirmed, TimeoutError) as error:
            if self._ref is not None or not isinstance(self._channel, FindsViews):
                raise  # a retry might leave a second message that is never removed
            await self._skip(ended, error, self._ports.settings().retry_first_s)

    async def _update(self, channel: CanEdit, part: Part) -> None:
        """Edit the message, or send one. Nothing is shown once the turn's last message is on its way."""
        show, id = self._calls.show, self.turn.id
        if self._ref is not None:
            await show(id, partial(self._edit, channel, self._ref, part))
        if self._ref is None:
            # Otherwise nobody would know the message to remove it.
            may_cancel = isinstance(self._channel, WithdrawsViews)
            await show(id, partial(self._send, self._channel, part), may_cancel=may_cancel)

    def _needs_renewal(self) -> bool:
        """Tell whether the message will expire unless it is shown again."""
        if self._ref is None or not isinstance(self._channel, RenewsViews):
            return False
        renew_s = self._channel.renew_view_s(self._ref)
        return renew_s is not None and self._ports.clock.monotonic() - self._last_at >= renew_s

    async def _edit(self, channel: CanEdit, ref: MessageRef, part: Part) -> None:
        """Edit the message, or forget it if a new one must be sent. Raises if a new one could not be edited either."""
        try:
            await channel.edit(ref, part)
        except CannotEdit as error:
            if self._is_renewed:
                raise
            self._ports.log("live.renewed", turn_id=self.turn.id, why=error.reason)
            self._to_remove.append(ref)
            self._ref, self._is_renewed = None, True
            return
        self._last, self._is_renewed = part, False

    async def _send(self, channel: Channel, part: Part) -> None:
        """Send a new message. One found from an unconfirmed try shows the older view, so it is edited next."""
        before, self._unsure = self._unsure, part
        try:
            self._ref = await channel.send(self._address, part)
        except (TryLater, Rejected):  # not sent
            self._unsure = before
            raise
        except anyio.get_cancelled_exc_class():
            if isinstance(channel, WithdrawsViews):  # not sent either
                self._unsure = before
            raise
        self._last, self._unsure = None if before else part, None

    async def _skip(self, ended: anyio.Event, error: Exception, pause_s: float) -> None:
        self._ports.log("live.skipped", turn_id=self.turn.id, level="debug", error=str(error))
        await Signals.wait(ended, pause_s)

    async def _remove(self) -> None:
        channel = self._channel
        if not isinstance(channel, CanDelete):
            return
        for _ in range(REMOVE_TRIES):
            try:
                with anyio.fail_after(self._ports.settings().send_timeout_s):
                    if self._ref is None and self._unsure is not None and isinstance(channel, FindsViews):
                        await self._send(channel, self._unsure)
                    if self._ref is not None:
                        self._to_remove.append(self._ref)
                        self._ref = None
                    await self._delete_all(channel)
                return
            except TryLater as error:
                await self._ports.clock.sleep(error.after_s)
            except (Unconfirmed, TimeoutError):
                await self._ports.clock.sleep(self._ports.settings().retry_first_s)
            except Rejected as error:
                self._ports.log("live.left", turn_id=self.turn.id, error=error.reason)
                return
        self._ports.log("live.handed_over", turn_id=self.turn.id, tries=REMOVE_TRIES)
        await _leave_to_outbox(self._ports, [self])
        self._ports.signals.poke(OUTBOX)

    async def _delete_all(self, channel: CanDelete) -> None:
        while self._to_remove:
            try:
                await channel.delete(self._to_remove[0])
            except Rejected as error:
                self._ports.log("live.left", turn_id=self.turn.id, error=error.reason)
            self._to_remove.pop(0)
