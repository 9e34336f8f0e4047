"""Shows "is typing …" while a turn runs (`TypingIndicators`), and keeps progress before a turn's last message (`ViewCalls`).

A turn that waits for an answer does not type. The indicator expires by itself after a few seconds, so it is renewed
every `type_every_s` of its channel, and stopping needs no call. Errors are logged and cost only the indicator.

A draft, an edit or a typing indicator that reached the platform after the answer would stay below it. `LiveViews` and
`TypingIndicators` make their calls through `show`; `Delivery` calls `end` before it sends the last message of a turn. No
call begins after `end`, and `end` waits for the rest. It cancels them: a channel drops what still waits for its limits,
and ends what it has sent (`ProgressCalls` in `channels/skeleton.py`), because the platform acts on it anyway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup

from pilothouse.core.channel import CanType, serves
from pilothouse.core.errors import Rejected, StoreError, TryLater, find_fenced
from pilothouse.core.ids import TurnId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.runtime.ports import Ports, Signals, end_of

T = TypeVar("T")
REMEMBERED = 1000
"""Ended turns that are remembered. A live view looks at its turn again within seconds."""
END_S = 2.0
"""The longest time that a last message waits for a progress message that is being created."""


class ViewCalls:
    def __init__(self) -> None:
        self._ended: dict[TurnId, None] = {}
        self._open: dict[TurnId, list[tuple[anyio.CancelScope | None, anyio.Event]]] = {}

    async def show(
        self, turn_id: TurnId, call: Callable[[], Awaitable[T]], *, may_cancel: bool = True
    ) -> T | None:
        """Make the call, unless the turn has ended; None if it was not made or was cancelled."""
        if turn_id in self._ended:
            return None
        scope, done = anyio.CancelScope(), anyio.Event()
        entry = (scope if may_cancel else None, done)
        self._open.setdefault(turn_id, []).append(entry)
        try:
            with scope:
                return await call()
        finally:
            self._close(turn_id, entry)
        return None

    async def end(self, turn_id: TurnId) -> None:
        """Return when no call of this turn is under way, or after `END_S`."""
        self._ended[turn_id] = None
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]
        under_way = list(self._open.get(turn_id, ()))
        for scope, _ in under_way:
            if scope is not None:
                scope.cancel()
        with anyio.move_on_after(END_S):
            for _, done in under_way:
                await done.wait()

    def _close(self, turn_id: TurnId, entry: tuple[anyio.CancelScope | None, anyio.Event]) -> None:
        entry[1].set()
        self._open[turn_id].remove(entry)
        if not self._open[turn_id]:
            del self._open[turn_id]


class TypingIndicators:
    """Runs one task for each live turn. `LiveViews` reports the live turns."""

    def __init__(self, ports: Ports, calls: ViewCalls) -> None:
        self._ports = ports
        self._calls = calls
        self._channels = {id: one for id, one in ports.channels.items() if isinstance(one, CanType)}
        self._known: set[TurnId] = set()

    @property
    def is_possible(self) -> bool:
        return bool(self._channels)

    async def update(self, live: Sequence[Turn], tasks: TaskGroup) -> None:
        """Start tasks for new turns; `live` are all live ones. After a `StoreError` the next call starts them."""
        if not self._channels:
            return
        fresh = [turn for turn in live if turn.id not in self._known]
        if fresh:
            ids = {turn.conversation_id for turn in fresh}
            places = await self._ports.store.read(lambda tx: tx.conversations.some(ids))
            for turn in fresh:
                place = places.get(turn.conversation_id)
                channel = None if place is None else self._channels.get(place.address.channel)
                if place is None or channel is None:
                    continue
                if serves(self._ports.channels[place.address.channel], place.id):
                    tasks.start_soon(self._show, turn.id, place.address, channel)
        self._known = {turn.id for turn in live}

    async def _show(self, turn_id: TurnId, address: Address, channel: CanType) -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._cancel_at_end, turn_id, channel.type_every_s, tasks.cancel_scope)
                await self._renew(turn_id, address, channel)
        except Exception as error:
            if find_fenced(error):
                raise
            self._ports.log("typing.dropped", turn_id=turn_id, level="warning", error=error)
        else:
            self._known.discard(turn_id)  # a parked turn may be live again before the next check

    async def _renew(self, turn_id: TurnId, address: Address, channel: CanType) -> None:
        """Renew the indicator until cancelled or refused."""
        while True:
            pause_s = channel.type_every_s
            if await self._status(turn_id) == "running":
                try:
                    with anyio.move_on_after(channel.type_every_s):
                        await self._calls.show(turn_id, partial(channel.type, address))
                except TryLater as error:
                    pause_s = max(pause_s, error.after_s)
                except Rejected as error:  # we may be removed from a place at any time: not an error
                    self._ports.log("typing.dropped", turn_id=turn_id, error=error.reason)
                    return
            await self._ports.clock.sleep(pause_s)

    async def _cancel_at_end(self, turn_id: TurnId, check_every_s: float, scope: anyio.CancelScope) -> None:
        """Cancel the indicator when the turn ends: at once for our turns, by polling for another node's."""
        while True:
            ticket = self._ports.signals.ticket(end_of(turn_id))
            if await self._status(turn_id) not in LIVE:
                return scope.cancel()
            await Signals.wait(ticket, check_every_s)

    async def _status(self, turn_id: TurnId) -> str:
        def unit(tx: Tx) -> str:
            turn = tx.turns.get(turn_id)
            return turn.status if turn is not None else ""

        try:
            return await self._ports.store.read(unit)
        except StoreError as error:
            self._ports.log("typing.postponed", turn_id=turn_id, level="warning", error=str(error))
            return "waiting"
