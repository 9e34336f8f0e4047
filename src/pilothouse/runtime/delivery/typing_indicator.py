"""Keeps "is typing …" alive: from a turn's start until it ends, on channels that can (`CanType`).

A turn that waits for somebody's answer does not type. An indicator goes out by itself after a few seconds, so it is
renewed every `type_every_s` of its channel, and stopping is doing nothing. Whatever goes wrong is logged and costs
nothing but the sign; a channel keeps it out of the way of what people wait for.
"""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio.abc import TaskGroup

from pilothouse.core.channel import CanType, serves
from pilothouse.core.errors import Rejected, StoreError, TryLater, find_fenced
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import Signals, end_of


class Typing:
    """Told of the live turns by whoever looks for them; each one that is new gets a task."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._able = {id: one for id, one in ports.channels.items() if isinstance(one, CanType)}
        self._known: set[TurnId] = set()

    @property
    def is_possible(self) -> bool:
        return bool(self._able)

    async def see(self, live: Sequence[Turn], tasks: TaskGroup) -> None:
        """`live` are all that live now. May raise `StoreError`; then they are seen with the next look."""
        if not self._able:
            return
        fresh = [turn for turn in live if turn.id not in self._known]
        if fresh:
            ids = {turn.conversation_id for turn in fresh}
            places = await self._ports.store.read(lambda tx: tx.conversations.some(ids))
            for turn in fresh:
                place = places.get(turn.conversation_id)
                channel = None if place is None else self._able.get(place.address.channel)
                if place is None or channel is None:
                    continue
                if serves(self._ports.channels[place.address.channel], place.id):
                    tasks.start_soon(self._keep, turn.id, place.address, channel)
        self._known = {turn.id for turn in live}

    async def _keep(self, turn_id: TurnId, address: Address, channel: CanType) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._until_over, turn_id, channel.type_every_s, tasks.cancel_scope)
                await self._renew(turn_id, address, channel)
        except Exception as error:
            if find_fenced(error):
                raise
            self._ports.log("typing.dropped", turn_id=turn_id, level="warning", error=error)
        else:
            self._known.discard(turn_id)  # a parked turn may be live again before the next look

    async def _renew(self, turn_id: TurnId, address: Address, channel: CanType) -> None:
        """Until it is cancelled, or refused."""
        while True:
            pause_s = channel.type_every_s
            if await self._status(turn_id) == "running":
                try:
                    with anyio.move_on_after(channel.type_every_s):
                        await channel.type(address)
                except TryLater as error:
                    pause_s = max(pause_s, error.after_s)
                except Rejected as error:  # a place may put us out at any time: nothing of ours is wrong
                    self._ports.log("typing.dropped", turn_id=turn_id, error=error.reason)
                    return
            await self._ports.clock.sleep(pause_s)

    async def _until_over(self, turn_id: TurnId, look_every_s: float, scope: anyio.CancelScope) -> None:
        """Cancels what is being shown, at once; another node's turn is looked for now and then."""
        while True:
            ticket = self._ports.signals.ticket(end_of(turn_id))
            if await self._status(turn_id) not in LIVE:
                return scope.cancel()
            await Signals.wait(ticket, look_every_s)

    async def _status(self, turn_id: TurnId) -> str:
        def unit(tx: Tx) -> str:
            turn = tx.turns.get(turn_id)
            return turn.status if turn is not None else ""

        try:
            return await self._ports.store.read(unit)
        except StoreError as error:
            self._ports.log("typing.postponed", turn_id=turn_id, level="warning", error=str(error))
            return "waiting"
