"""Looks after the channels: how each one is goes into the store, where `pilothouse status` finds it.

One that is in trouble is told to the owners, in their private chats on other channels; so is the end of it.
"""

from __future__ import annotations

from pilothouse.core.approvers import OWNERS, Authority
from pilothouse.core.channel import ChannelHealth, HasHealth
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.health import Noted, health_of, note_health
from pilothouse.core.ids import ChannelId
from pilothouse.core.message import Content
from pilothouse.core.store import Tx
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import OUTBOX
from pilothouse.runtime.standing import homes_of

LOOK_EVERY_S = 5.0
NOTE_EVERY_S = 30.0
"""A channel that is well is written down no more often than this."""


class Tending:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._noted: dict[ChannelId, Noted] = {}

    async def run(self) -> None:
        tended = {id: one for id, one in self._ports.channels.items() if isinstance(one, HasHealth)}
        while tended:
            for id, channel in tended.items():
                await self._look_after(id, channel.health())
            await self._ports.clock.sleep(LOOK_EVERY_S)

    async def _look_after(self, id: ChannelId, health: ChannelHealth) -> None:
        ports, now = self._ports, self._ports.clock.now()
        before = self._noted.get(id)
        if before is not None and _is_old_news(before, health) and now - before.at < NOTE_EVERY_S:
            return
        noted = Noted(now, health.heard_at, health.trouble)

        def unit(tx: Tx) -> None:
            last = health_of(tx, id)
            note_health(tx, id, noted)
            if (last.trouble if last else "") != noted.trouble:
                self._alert(tx, id, noted)

        try:
            await ports.store.write(unit)
        except Fenced:
            raise
        except StoreError as error:
            ports.log("channel.health_postponed", level="warning", error=str(error))
            return
        self._noted[id] = noted
        ports.signals.poke(OUTBOX)

    def _alert(self, tx: Tx, id: ChannelId, noted: Noted) -> None:
        """Wherever else an owner was heard: on the channel itself it might never arrive."""
        text = (
            f"The channel {id} is in trouble. {noted.trouble}"
            if noted.trouble
            else f"The channel {id} works again."
        )
        homes = homes_of(tx, self._ports.settings().people, Authority(OWNERS))
        for place in tx.conversations.some(homes).values():
            if place.address.channel != id:
                key = f"alert:{id}:{noted.at}:{place.id}"
                say(tx, self._ports.ids, place.id, Content(text), key=key, at=noted.at)


def _is_old_news(noted: Noted, health: ChannelHealth) -> bool:
    return noted.trouble == health.trouble and (noted.heard_at is None) == (health.heard_at is None)
