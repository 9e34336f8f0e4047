"""The live view: what a turn does, shown while it does it. Not durable, droppable, never in a final's way.

Change-driven: a view is shown when it looks different, no more often than `edit_every_s`; elapsed time is part of
how it looks, so it keeps moving while a tool is silent. One that would fade is shown again though it looks the same.
When the turn is no longer live the progress message goes away. A turn younger than `first_view_s` is not looked at, and
the log of an older one is read when there is something to show, not whenever it grows: a quick turn costs nothing here.
A message that cannot be changed any more gives way to a new one; one that cannot be taken away now is left to the outbox.
Whatever goes wrong is logged and costs nothing but the view.
"""

from __future__ import annotations

from collections.abc import Collection

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
from pilothouse.runtime.delivery.typing_indicator import Typing
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import OUTBOX, TURNS, Signals, end_of

LOOK_SHARE = 0.2
"""How much of `edit_every_s` may pass before a new turn is noticed: many that begin together are one look."""

REMOVE_TRIES = 5
"""After so many, progress that shall go away becomes a row of the outbox."""


class LiveViews:
    """Finds the live turns whose channel can edit, and shows each until it is no longer live."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._shown: set[TurnId] = set()
        self._due: dict[TurnId, float] = {}
        """When a turn that is still young will be shown, by the monotonic clock."""
        self._typing = Typing(ports)
        """One look at what lives is enough for both."""
        self._open: set[Progress] = set()
        self._leaving = False
        self._all_gone = anyio.Event()

    async def clear(self, within_s: float) -> None:
        """Takes away what is shown, while there is still a channel to do it through; shows nothing any more. What that has
        no time for is left to the next gateway."""
        self._leaving, self._all_gone = True, anyio.Event()
        for progress in self._open:
            progress.leave()
        if self._open:
            with anyio.move_on_after(within_s):
                await self._all_gone.wait()
            await _hand_over(self._ports, self._open)

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
                await Signals.wait(ticket, self._pause_s(settings.poll_s))
                await anyio.sleep(settings.edit_every_s * LOOK_SHARE)

    async def _changes(self, tasks: TaskGroup) -> list[Progress]:
        """Forgets what is no longer live; returns what is due. One that broke stays known: it is not tried again."""
        read = self._ports.store.read
        try:
            live = await read(lambda tx: tx.turns.of(statuses=tuple(LIVE), limit=500))
            await self._typing.see(live, tasks)
            due = self._take_due(live)
            places = await read(lambda tx: tx.conversations.some(turn.conversation_id for turn in due))
        except StoreError as error:
            self._ports.log("live.postponed", level="warning", error=str(error))
            return []
        return [
            Progress(self._ports, turn, place.address, channel)
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
        self._due = {turn.id: self._due.get(turn.id, now + self._young_s(turn, first_s)) for turn in young}
        due = [turn for turn in young if self._due[turn.id] <= now]
        for turn in due:
            del self._due[turn.id]
            self._shown.add(turn.id)
        return due

    def _young_s(self, turn: Turn, first_s: float) -> float:
        """Never longer than it may be at all, wherever the clock has jumped to."""
        age_s = self._ports.clock.now() - (turn.started_at or 0.0)
        return min(first_s, max(0.0, first_s - age_s))

    def _pause_s(self, at_most_s: float) -> float:
        next_at = min(self._due.values(), default=float("inf"))
        return min(at_most_s, max(0.0, next_at - self._ports.clock.monotonic()))

    async def _show(self, progress: Progress) -> None:
        try:
            await self._show_until_over(progress)
        except Rejected as error:  # a place may put us out at any time: nothing of ours is wrong
            self._ports.log("live.dropped", turn_id=progress.turn.id, error=error.reason)
        except Exception as error:
            if find_fenced(error):
                raise
            self._ports.log("live.dropped", turn_id=progress.turn.id, level="error", error=error)
        else:
            self._shown.discard(progress.turn.id)  # a parked turn may be live again before the next look

    async def _show_until_over(self, progress: Progress) -> None:
        """Until its turn ends, or we leave: what is shown goes away with either."""
        if self._leaving:
            return
        self._open.add(progress)
        try:
            await progress.run()
        finally:
            self._open.discard(progress)
            if not self._open:
                self._all_gone.set()


async def _hand_over(ports: Ports, shown: Collection[Progress]) -> None:
    """Leaves to the outbox what stands there: it is patient, and outlives us."""
    now, left = ports.clock.now(), [(progress.turn, ref) for progress in shown for ref in progress.stands]
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


class Progress:
    """One progress message: sent, edited while it changes, gone at the end. A quick turn never shows one."""

    def __init__(self, ports: Ports, turn: Turn, address: Address, channel: Channel) -> None:
        self.turn = turn
        self._ports = ports
        self._address = address
        self._channel = channel
        self._view = TurnView(turn_id=turn.id)
        self._ref: MessageRef | None = None
        self._is_renewed = False
        self._over: list[MessageRef] = []
        """What shall go away."""
        self._last: Part | None = None
        self._last_at = 0.0
        """When it was shown, by the monotonic clock."""
        self._unsure: Part | None = None
        """A first one that was sent, and may or may not stand there."""
        self._seq: int | None = None
        self._leaving = False

    @property
    def stands(self) -> list[MessageRef]:
        """What would have to be taken away now."""
        return [*self._over, *([] if self._ref is None else [self._ref])]

    async def run(self) -> None:
        pause_s = 0.0
        try:
            while not await self._ends_within(pause_s) and not self._leaving:
                await self._refresh()
                pause_s = self._ports.settings().edit_every_s
        finally:
            await self._remove()

    def leave(self) -> None:
        """Ends this soon: what is on its way arrives first, else nobody would know what to take away."""
        self._leaving = True
        self._ports.signals.poke(end_of(self.turn.id))

    async def _ends_within(self, seconds: float) -> bool:
        """Folds what the log has that we have not seen; true once the turn lives no more."""
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
        """What the platform refuses now is not repeated: the next look may differ anyway."""
        if not isinstance(self._channel, CanEdit):
            return
        part = self._channel.render_view(self._view, self._ports.clock.now())
        if part is None or (part == self._last and not self._fades()):
            return
        now = self._ports.clock.monotonic()
        ended = self._ports.signals.ticket(end_of(self.turn.id))
        try:
            with anyio.fail_after(self._ports.settings().send_timeout_s):
                if self._ref is None or not await self._edit(self._channel, self._ref, part):
                    await self._send(self._channel, part)
                self._last_at = now
                if isinstance(self._channel, CanDelete):
                    await self._take_away(self._channel)
        except TryLater as error:
            await self._skip(ended, error, error.after_s)
        except (Unconfirmed, TimeoutError) as error:
            if self._ref is not None or not isinstance(self._channel, FindsViews):
                raise  # a second one might be two, and nobody could say which to take away
            await self._skip(ended, error, self._ports.settings().retry_first_s)

    def _fades(self) -> bool:
        """Whether what stands there will be gone if it is not shown again."""
        if self._ref is None or not isinstance(self._channel, RenewsViews):
            return False
        renew_s = self._channel.renew_view_s(self._ref)
        return renew_s is not None and self._ports.clock.monotonic() - self._last_at >= renew_s

    async def _edit(self, channel: CanEdit, ref: MessageRef, part: Part) -> bool:
        """False if a new one must be sent. Where that could not be changed at all, the next would be no better."""
        try:
            await channel.edit(ref, part)
        except CannotEdit as error:
            if self._is_renewed:
                raise
            self._ports.log("live.renewed", turn_id=self.turn.id, why=error.reason)
            self._over.append(ref)
            self._ref, self._is_renewed = None, True
            return False
        self._last, self._is_renewed = part, False
        return True

    async def _send(self, channel: Channel, part: Part) -> None:
        """What is found of an earlier try looks as it did then."""
        before, self._unsure = self._unsure, part
        try:
            self._ref = await channel.send(self._address, part)
        except (TryLater, Rejected):  # this one was not taken
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
                        self._over.append(self._ref)
                        self._ref = None
                    await self._take_away(channel)
                return
            except TryLater as error:
                await self._ports.clock.sleep(error.after_s)
            except (Unconfirmed, TimeoutError):
                await self._ports.clock.sleep(self._ports.settings().retry_first_s)
            except Rejected as error:
                self._ports.log("live.left", turn_id=self.turn.id, error=error.reason)
                return
        self._ports.log("live.handed_over", turn_id=self.turn.id, tries=REMOVE_TRIES)
        await _hand_over(self._ports, [self])
        self._ports.signals.poke(OUTBOX)

    async def _take_away(self, channel: CanDelete) -> None:
        while self._over:
            try:
                await channel.delete(self._over[0])
            except Rejected as error:
                self._ports.log("live.left", turn_id=self.turn.id, error=error.reason)
            self._over.pop(0)
