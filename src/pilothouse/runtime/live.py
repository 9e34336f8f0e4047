"""The live view: what a turn does, shown while it does it. Not durable, droppable, never in a final's way.

Change-driven: a view is shown when it looks different, no more often than `edit_every_s`; elapsed time is part of
how it looks, so it keeps moving while a tool is silent. When the turn is no longer live the progress message goes
away. Whatever goes wrong here is logged and costs nothing but the view.
"""

from __future__ import annotations

import anyio

from pilothouse.core.channel import CanDelete, CanEdit, Channel
from pilothouse.core.errors import Rejected, StoreError, TryLater
from pilothouse.core.event import SessionStarted, TurnEnded
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Address, MessageRef, Part
from pilothouse.core.store import Conversation, Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.fencing import fenced_in
from pilothouse.runtime.following import follow
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import INBOX, Signals

REMOVE_TRIES = 5


class LiveViews:
    """Finds the live turns whose channel can edit, and shows each until it is no longer live."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._shown: dict[TurnId, Progress] = {}

    async def run(self) -> None:
        if not any(isinstance(channel, CanEdit) for channel in self._ports.channels.values()):
            return
        async with anyio.create_task_group() as tasks:
            while True:
                ticket = self._ports.signals.ticket(INBOX)
                for progress in await self._changes():
                    tasks.start_soon(self._show, progress)
                await Signals.wait(ticket, self._ports.settings().poll_s)

    async def _changes(self) -> list[Progress]:
        """Stops what is no longer live; returns what is new. One that broke stays known: it is not tried again."""
        try:
            found = await self._ports.store.read(_live)
        except StoreError as error:
            self._ports.log("live.postponed", error=str(error))
            return []
        live = {turn.id for turn, _ in found}
        for turn_id in self._shown.keys() - live:
            self._shown.pop(turn_id).stop()
        new: list[Progress] = []
        for turn, conversation in found:
            channel = self._ports.channels.get(conversation.address.channel)
            if turn.id not in self._shown and channel is not None and isinstance(channel, CanEdit):
                self._shown[turn.id] = Progress(self._ports, turn, conversation.address, channel)
                new.append(self._shown[turn.id])
        return new

    async def _show(self, progress: Progress) -> None:
        try:
            await progress.run()
        except Exception as error:
            if fenced_in(error):
                raise
            self._ports.log(
                "live.dropped", turn_id=progress.turn.id, error=f"{type(error).__name__}: {error}"
            )


class Progress:
    """One progress message: sent once, edited while it changes, gone at the end. A quick turn never shows one."""

    def __init__(self, ports: Ports, turn: Turn, address: Address, channel: Channel) -> None:
        self.turn = turn
        self._ports = ports
        self._address = address
        self._channel = channel
        self._view = TurnView()
        self._ref: MessageRef | None = None
        self._last: Part | None = None
        self._ended = anyio.Event()

    def stop(self) -> None:
        self._ended.set()

    async def run(self) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read)
                while not self._ended.is_set():
                    await Signals.wait(self._ended, self._ports.settings().edit_every_s)
                    if not self._ended.is_set():
                        await self._refresh()
                tasks.cancel_scope.cancel()
        finally:
            await self._remove()

    async def _read(self) -> None:
        seq = await self._ports.look(self._before_the_turn)
        async for logged in follow(self._ports, self.turn.conversation_id, seq):
            if logged.turn_id != self.turn.id:
                continue
            if isinstance(logged.event, SessionStarted):
                self._view = TurnView()
            self._view = fold(self._view, logged.event, logged.at)
            if isinstance(logged.event, TurnEnded):
                self.stop()
                return

    def _before_the_turn(self, tx: Tx) -> int:
        first = tx.events.of_turn(self.turn.id, limit=1)
        return first[0].seq - 1 if first else tx.events.last_seq(self.turn.conversation_id)

    async def _refresh(self) -> None:
        """What the platform refuses now is not repeated: the next look may differ anyway."""
        if not isinstance(self._channel, CanEdit):
            return
        part = self._channel.render_view(self._view, self._ports.clock.now())
        if part is None or part == self._last:
            return
        try:
            with anyio.fail_after(self._ports.settings().send_timeout_s):
                if self._ref is None:
                    self._ref = await self._channel.send(self._address, part)
                else:
                    await self._channel.edit(self._ref, part)
            self._last = part
        except TryLater as error:
            self._ports.log("live.skipped", turn_id=self.turn.id, error=str(error))
            await Signals.wait(self._ended, error.after_s)

    async def _remove(self) -> None:
        if self._ref is None or not isinstance(self._channel, CanDelete):
            return
        for _ in range(REMOVE_TRIES):
            try:
                with anyio.fail_after(self._ports.settings().send_timeout_s):
                    await self._channel.delete(self._ref)
                return
            except TryLater as error:
                await self._ports.clock.sleep(error.after_s)
            except Rejected as error:
                self._ports.log("live.left", turn_id=self.turn.id, error=error.reason)
                return


def _live(tx: Tx) -> list[tuple[Turn, Conversation]]:
    turns = tx.turns.of(statuses=tuple(LIVE), limit=500)
    found = [(turn, tx.conversations.get(turn.conversation_id)) for turn in turns]
    return [(turn, conversation) for turn, conversation in found if conversation is not None]
