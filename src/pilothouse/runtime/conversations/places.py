"""Which conversation an address means: the one under its own id, but for a place that moved.

A platform may give a place a new address; a group that becomes a supergroup gets another number. Nothing of the
conversation is carried over then. It keeps the id under which it began, and with it its binding, its session, what
runs, waits and is asked, its trigger and its schedules; from then on the new address means it, and what is said goes
there. So a move is one small transaction, and the same move twice is one.

What names a *message* is made of the address that it came under: two places may number their messages alike.

What the people of a place chose that we react to: kept in the store, under the conversation it was said in.

A thread hears what its parent hears until somebody says otherwise in it. A channel asks for every message of a group,
so what was found is remembered until somebody, here or in another process, changes something.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.channel import PlaceSettings
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, MessageRef, conversation_id, inbox_key, parent_id
from pilothouse.core.store import Tx
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import PLACES

MOST = 10_000

_decode_trigger = msgspec.json.Decoder(Trigger).decode


class Moved(Struct, frozen=True):
    """What a new address means, and the addresses that it had before, the first one first."""

    conversation: ConversationId
    former: tuple[Address, ...]


_decode_moved = msgspec.json.Decoder(Moved).decode


def place_id(tx: Tx, address: Address) -> ConversationId:
    return resolve(tx, conversation_id(address))


def resolve(tx: Tx, id: ConversationId) -> ConversationId:
    """The conversation that an id means, where it was made of an address."""
    moved = moved_from(tx, id)
    return id if moved is None else moved.conversation


def former_addresses(tx: Tx, address: Address) -> tuple[Address, ...]:
    moved = moved_from(tx, conversation_id(address))
    return () if moved is None else moved.former


def ensure_place(tx: Tx, address: Address, at: float, *, private: bool = False) -> Conversation:
    """The conversation at an address; it is stored if there is none."""
    return tx.conversations.ensure(Conversation(place_id(tx, address), address, at, private=private))


def where_stands(tx: Tx, ref: MessageRef) -> Address:
    """The address of a message that a platform named by its place, for all threads of which it counts as one."""
    threads = tx.conversations.threads_of(conversation_id(ref.address))
    addresses = (ref.address, *(thread.address for thread in threads))
    return next((one for one in addresses if _is_known(tx, MessageRef(one, ref.native_id))), ref.address)


def _is_known(tx: Tx, ref: MessageRef) -> bool:
    said = tx.inbox.by_key(message_key(ref.address, ref.native_id))
    return said is not None or tx.outbox.find_ref(ref) is not None


def moved_from(tx: Tx, id: ConversationId) -> Moved | None:
    kept = tx.get_fact(moved_key(id))
    return _decode_moved(kept) if kept else None


def moved_key(id: ConversationId) -> str:
    return f"moved:{id}"


def message_key(address: Address, native_id: str) -> str:
    """By where it came from, wherever its conversation began: numbers of messages are a place's own."""
    return inbox_key(conversation_id(address), native_id)


def trigger_of(tx: Tx, place: ConversationId) -> Trigger | None:
    """As chosen there, or where it belongs to; None is as configured."""
    own, parent = _kept(tx, place), parent_id(place)
    return own if own is not None or parent is None else _kept(tx, resolve(tx, parent))


def keep_trigger(tx: Tx, place: ConversationId, trigger: Trigger | None) -> None:
    """None takes back what was chosen."""
    tx.set_fact(_trigger_key(place), "" if trigger is None else msgspec.json.encode(trigger).decode())


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
    kept = tx.get_fact(_trigger_key(place))
    return _decode_trigger(kept) if kept else None


def _trigger_key(place: ConversationId) -> str:
    return f"trigger:{place}"
