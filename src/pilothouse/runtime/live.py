"""The live view: what a turn does, shown while it does it. Not durable, droppable, never in a final's way.

Change-driven: a view is shown when it looks different, no more often than `edit_every_s`; elapsed time is part of
how it looks, so it keeps moving while a tool is silent. When the turn has ended the progress message goes away.
The log is read when there is something to show, not whenever it grows: a quick turn costs nothing here.
"""

from __future__ import annotations

import anyio

from pilothouse.core.channel import CanDelete, CanEdit, Channel, LoggedEvent
from pilothouse.core.errors import DeliveryError, StoreError
from pilothouse.core.event import SessionStarted
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Address, MessageRef, Part
from pilothouse.core.store import Conversation, Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.following import PAGE
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import TURNS, Signals, end_of

LOOK_SHARE = 0.2
"""How much of `edit_every_s` may pass before a new turn is noticed: many that begin together are one look."""


class LiveViews:
    """Finds the live turns whose channel can edit, and shows each."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._shown: set[TurnId] = set()

    async def run(self) -> None:
        if not any(isinstance(channel, CanEdit) for channel in self._ports.channels.values()):
            return
        async with anyio.create_task_group() as tasks:
            while True:
                settings = self._ports.settings()
                ticket = self._ports.signals.ticket(TURNS)
                for turn, conversation in await self._live():
                    channel = self._ports.channels.get(conversation.address.channel)
                    if turn.id not in self._shown and channel is not None and isinstance(channel, CanEdit):
                        self._shown.add(turn.id)
                        tasks.start_soon(
                            self._show, _Progress(self._ports, turn, conversation.address, channel)
                        )
                await Signals.wait(ticket, settings.poll_s)
                await self._ports.clock.sleep(settings.edit_every_s * LOOK_SHARE)

    async def _live(self) -> list[tuple[Turn, Conversation]]:
        def unit(tx: Tx) -> list[tuple[Turn, Conversation]]:
            turns = [
                turn for turn in tx.turns.of(statuses=tuple(LIVE), limit=500) if turn.id not in self._shown
            ]
            found = [(turn, tx.conversations.get(turn.conversation_id)) for turn in turns]
            return [(turn, conversation) for turn, conversation in found if conversation is not None]

        try:
            return await self._ports.store.read(unit)
        except StoreError as error:
            self._ports.log("live.postponed", error=str(error))
            return []

    async def _show(self, progress: _Progress) -> None:
        try:
            await progress.run()
        except (DeliveryError, StoreError, OSError) as error:
            self._ports.log("live.dropped", turn_id=progress.turn.id, error=str(error))
        finally:
            self._shown.discard(progress.turn.id)


class _Progress:
    """One progress message: sent once, edited while it changes, gone at the end. A quick turn never shows one."""

    def __init__(self, ports: Ports, turn: Turn, address: Address, channel: Channel) -> None:
        self.turn = turn
        self._ports = ports
        self._address = address
        self._channel = channel
        self._view = TurnView()
        self._seq: int | None = None
        self._ref: MessageRef | None = None
        self._last: Part | None = None

    async def run(self) -> None:
        every_s, began_at = self._ports.settings().edit_every_s, self.turn.started_at
        age_s = 0.0 if began_at is None else self._ports.clock.now() - began_at
        pause_s = min(every_s, max(0.0, every_s - age_s))
        while True:
            ticket = self._ports.signals.ticket(end_of(self.turn.id))
            await Signals.wait(ticket, pause_s)
            if await self._read_on():
                break
            if not ticket.is_set():
                await self._refresh()
            pause_s = self._ports.settings().edit_every_s
        if self._ref is not None and isinstance(self._channel, CanDelete):
            await self._channel.delete(self._ref)

    async def _read_on(self) -> bool:
        """Folds what the log has that we have not seen; true once the turn lives no more."""
        while True:
            events, live = await self._ports.store.read(self._page)
            for logged in events:
                self._seq = logged.seq
                if logged.turn_id != self.turn.id:
                    continue
                if isinstance(logged.event, SessionStarted):
                    self._view = TurnView()
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
        if not isinstance(self._channel, CanEdit):
            return
        part = self._channel.render_view(self._view, self._ports.clock.now())
        if part is None or part == self._last:
            return
        try:
            if self._ref is None:
                self._ref = await self._channel.send(self._address, part)
            else:
                await self._channel.edit(self._ref, part)
            self._last = part
        except DeliveryError as error:
            self._ports.log("live.skipped", turn_id=self.turn.id, error=str(error))
