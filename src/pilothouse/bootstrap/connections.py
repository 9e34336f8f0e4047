"""Reports on the terminal of `pilothouse up` which channels are connected: at the start, and after each change.

A channel counts as connected only after its platform has answered it. A channel that reports no health of its own counts
as connected while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from pilothouse.core.channel import Channel, ChannelHealth, HasHealth
from pilothouse.core.clock import Clock, until_next
from pilothouse.core.ids import ChannelId

FIRST_LOOK_S = 0.1
LOOK_EVERY_S = 5.0
SLOW_S = 10.0
"""Wait this long for the first answer of a platform before saying that it has not answered."""
NO_ANSWER = "It has not answered yet; Pilothouse keeps trying."


class Connection(Struct, frozen=True):
    """`trouble` says why the channel is not connected; empty if it is, or if nothing is known yet."""

    is_up: bool
    trouble: str = ""


class Connections:
    """Watches the channels of one gateway. `run_health` is the gateway's view, which knows of crashes."""

    def __init__(
        self,
        channels: Mapping[ChannelId, Channel],
        run_health: Callable[[ChannelId], ChannelHealth],
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self._channels = channels
        self._run_health = run_health
        self._clock = clock
        self._say = say
        self._told: dict[ChannelId, Connection] = {}

    @property
    def has_channels(self) -> bool:
        return bool(self._channels)

    async def settle(self) -> tuple[ChannelId, ...]:
        """Waits until each channel is connected or in trouble, but not long; returns the connected ones."""
        started_at = self._clock.monotonic()
        while True:
            found = {id: self._look(id) for id in self._channels}
            is_over = self._clock.monotonic() - started_at >= SLOW_S
            if is_over or all(one.is_up or one.trouble for one in found.values()):
                break
            await self._clock.sleep(FIRST_LOOK_S)
        self._told = {id: one for id, one in found.items() if one.is_up}
        return tuple(self._told)

    async def report(self) -> None:
        """Says which channels are not connected, then every change, until cancelled."""
        while self._channels:
            for id in self._channels:
                self._tell(id, self._look(id))
            await self._clock.sleep(until_next(LOOK_EVERY_S, self._clock.monotonic()))

    def _look(self, id: ChannelId) -> Connection:
        channel = self._channels[id]
        if not isinstance(channel, HasHealth):
            trouble = self._run_health(id).trouble
            return Connection(not trouble, trouble)
        own = channel.health()
        if own.trouble:
            return Connection(False, own.trouble)
        return Connection(own.heard_at is not None)

    def _tell(self, id: ChannelId, now: Connection) -> None:
        if not now.is_up and not now.trouble:
            now = Connection(False, self._run_health(id).trouble or NO_ANSWER)
        if self._told.get(id) != now:
            self._told[id] = now
            self._say(f"{id} is connected." if now.is_up else f"{id} is not connected: {now.trouble}")
