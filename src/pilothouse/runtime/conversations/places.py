"""Maps addresses to conversations, and stores which messages a place reacts to (its trigger).

A platform may give a place a new address, as when a Telegram group becomes a supergroup. The conversation then keeps
the id under which it began, and with it everything stored; a fact maps the new address to it. So a move is one small
transaction, and repeating it changes nothing. Message keys use the address that a message came under: two places may
number their messages alike.

A thread uses its parent's trigger until one is set in it. A channel asks for every message of a group, so results are
cached until something changes, in this process or another.
"""

from __future__ import annotations

from msgspec import Struct

from pilothouse.core.channel import PlaceSettings
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, MessageRef, conversation_id, inbox_key, parent_id
from pilothouse.core.store import Tx
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.facts import MOVED, TRIGGER, load_fact, save_fact
from pilothouse.runtime.ports import PLACES, Ports

MAX_CACHED = 10_000


class Moved(Struct, frozen=True):
    """The conversation behind a new address, and its former addresses, oldest first."""

    conversation: ConversationId
    former: tuple[Address, ...]


def place_id(tx: Tx, address: Address) -> ConversationId:
    return resolve(tx, conversation_id(address))


def resolve(tx: Tx, id: ConversationId) -> ConversationId:
    """Follow a move: return the conversation that an id made from an address stands for."""
    moved = moved_from(tx, id)
    return id if moved is None else moved.conversation


def former_addresses(tx: Tx, address: Address) -> tuple[Address, ...]:
    moved = moved_from(tx, conversation_id(address))
    return () if moved is None else moved.former


def ensure_place(tx: Tx, address: Address, at: float, *, private: bool = False) -> Conversation:
    """Return the conversation at an address, storing it if it is new."""
    return tx.conversations.ensure(Conversation(place_id(tx, address), address, at, private=private))


def find_address(tx: Tx, ref: MessageRef) -> Address:
    """Find the thread of a message that the platform named by its place alone; ids are unique across its threads."""
    threads = tx.conversations.threads_of(conversation_id(ref.address))
    addresses = (ref.address, *(thread.address for thread in threads))
    return next((one for one in addresses if _is_known(tx, MessageRef(one, ref.native_id))), ref.address)


def _is_known(tx: Tx, ref: MessageRef) -> bool:
    said = tx.inbox.by_key(message_key(ref.address, ref.native_id))
    return said is not None or tx.outbox.find_ref(ref) is not None


def moved_from(tx: Tx, id: ConversationId) -> Moved | None:
    return load_fact(tx, MOVED.of(id), Moved)


def message_key(address: Address, native_id: str) -> str:
    """Return the inbox key, made from the message's own address: each place numbers its messages itself."""
    return inbox_key(conversation_id(address), native_id)


def trigger_of(tx: Tx, place: ConversationId) -> Trigger | None:
    """Return the trigger set in a place or in its parent; None means the configured one."""
    own, parent = _kept(tx, place), parent_id(place)
    return own if own is not None or parent is None else _kept(tx, resolve(tx, parent))


def keep_trigger(tx: Tx, place: ConversationId, trigger: Trigger | None) -> None:
    """Store a trigger; None resets it to the configured one."""
    save_fact(tx, TRIGGER.of(place), trigger)


class Places:
    """Caches the settings of places. One per gateway."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._known: dict[Address, PlaceSettings] = {}
        self._ticket = ports.signals.ticket(PLACES)

    async def of(self, address: Address) -> PlaceSettings:
        if self._ticket.is_set() or len(self._known) >= MAX_CACHED:
            # A read that is under way fills the old dict, so its stale result is never used.
            self._known = {}
            self._ticket = self._ports.signals.ticket(PLACES)
        known = self._known
        if address not in known:
            known[address] = await self._ports.store.read(lambda tx: _settings(tx, address))
        return known[address]


def _settings(tx: Tx, address: Address) -> PlaceSettings:
    return PlaceSettings(trigger_of(tx, place_id(tx, address)), former_addresses(tx, address))


def _kept(tx: Tx, place: ConversationId) -> Trigger | None:
    return load_fact(tx, TRIGGER.of(place), Trigger)
