"""Which conversation an address means: the one under its own id, but for a place that moved.

A platform may give a place a new address; a group that becomes a supergroup gets another number. Nothing of the
conversation is carried over then. It keeps the id under which it began, and with it its binding, its session, what
runs, waits and is asked, its trigger and its schedules; from then on the new address means it, and what is said goes
there. So a move is one small transaction, and the same move twice is one.

What names a *message* is made of the address that it came under: two places may number their messages alike.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import Address, MessageRef, conversation_id, inbox_key
from pilothouse.core.queue import notes_lane
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import HOUSE, record
from pilothouse.runtime.raising import show_ask_in


class _Moved(Struct, frozen=True):
    """What a new address means, and the addresses that it had before, the first one first."""

    conversation: ConversationId
    former: tuple[Address, ...]


_decode = msgspec.json.Decoder(_Moved).decode


def place_id(tx: Tx, address: Address) -> ConversationId:
    return resolve(tx, conversation_id(address))


def resolve(tx: Tx, id: ConversationId) -> ConversationId:
    """The conversation that an id means, where it was made of an address."""
    moved = _moved(tx, id)
    return id if moved is None else moved.conversation


def former_addresses(tx: Tx, address: Address) -> tuple[Address, ...]:
    moved = _moved(tx, conversation_id(address))
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


def move_place(tx: Tx, ids: IdMaker, old: Address, new: Address, at: float) -> bool:
    """From now on `new` is where the conversation of `old` is. False, and nothing changes, if that is known."""
    home, target = place_id(tx, old), conversation_id(new)
    if _moved(tx, target) is not None or home == target:
        return False
    place = ensure_place(tx, old, at)
    known = _Moved(home, (*former_addresses(tx, old), old))
    tx.set_fact(_key(target), msgspec.json.encode(known).decode())
    tx.conversations.save(msgspec.structs.replace(place, address=new))
    _take_over(tx, ids, target, home, at)
    for asked in tx.asks.open_in(home):  # the buttons stayed behind
        show_ask_in(tx, ids, asked, home, at, occasion=f"moved:{target}")
    record(tx, at, HOUSE, "conversation.moved", conversation=home, to=target)
    return True


def _take_over(tx: Tx, ids: IdMaker, stray: ConversationId, home: ConversationId, at: float) -> None:
    """What was said under the new address before we heard of the move goes in with the rest."""
    for row in (*tx.inbox.waiting(stray), *tx.inbox.waiting(notes_lane(stray))):
        lane = notes_lane(home) if row.lane == notes_lane(stray) else home
        tx.inbox.withdraw(row.id, at, f"its place is {home}")
        tx.inbox.put(
            id=MessageId(ids("msg")),
            key=f"{row.key}|moved",
            lane=lane,
            conversation_id=home,
            kind=row.kind,
            body=bytes(row.body),
            at=at,
            ready_at=row.ready_at,
        )


def _moved(tx: Tx, id: ConversationId) -> _Moved | None:
    kept = tx.get_fact(_key(id))
    return _decode(kept) if kept else None


def _key(id: ConversationId) -> str:
    return f"moved:{id}"


def message_key(address: Address, native_id: str) -> str:
    """By where it came from, wherever its conversation began: numbers of messages are a place's own."""
    return inbox_key(conversation_id(address), native_id)
