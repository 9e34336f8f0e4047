"""What the people of a place chose that we react to: kept in the store, under the conversation it was said in.

A thread hears what its parent hears until somebody says otherwise in it. A channel asks for every message of a group,
so what was found is remembered until somebody, here or in another process, changes something.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.channel import PlaceSettings
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, parent_id
from pilothouse.core.store import Tx
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.placing import former_addresses, place_id, resolve
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import PLACES

MOST = 10_000

_decode = msgspec.json.Decoder(Trigger).decode


def trigger_of(tx: Tx, place: ConversationId) -> Trigger | None:
    """As chosen there, or where it belongs to; None is as configured."""
    own, parent = _kept(tx, place), parent_id(place)
    return own if own is not None or parent is None else _kept(tx, resolve(tx, parent))


def keep_trigger(tx: Tx, place: ConversationId, trigger: Trigger | None) -> None:
    """None takes back what was chosen."""
    tx.set_fact(_key(place), "" if trigger is None else msgspec.json.encode(trigger).decode())


class Places:
    """What channels asked for, remembered. One for each gateway."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._known: dict[Address, PlaceSettings] = {}
        self._ticket = ports.signals.ticket(PLACES)

    async def of(self, address: Address) -> PlaceSettings:
        if self._ticket.is_set() or len(self._known) >= MOST:
            # A look that is under way writes into the old one, and so is not believed.
            self._known = {}
            self._ticket = self._ports.signals.ticket(PLACES)
        known = self._known
        if address not in known:
            known[address] = await self._ports.store.read(lambda tx: _settings(tx, address))
        return known[address]


def _settings(tx: Tx, address: Address) -> PlaceSettings:
    return PlaceSettings(trigger_of(tx, place_id(tx, address)), former_addresses(tx, address))


def _kept(tx: Tx, place: ConversationId) -> Trigger | None:
    kept = tx.get_fact(_key(place))
    return _decode(kept) if kept else None


def _key(place: ConversationId) -> str:
    return f"trigger:{place}"
