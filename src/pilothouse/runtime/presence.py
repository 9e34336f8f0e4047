"""We were added to a place, or put out of it: who hears of it, and what becomes of what waits to be said there.

Whoever may talk to us is greeted where they added us. Nobody else is: there the owners are told, seldom enough that
strangers cannot bury them. A place that put us out is sent nothing more until it takes us back.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.channel_status import Removal, note_removal, removal_from
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import Address, Content, Presence, conversation_id, parent_id
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.queue import notes_lane
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.show import show_ask_in
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.conversations.binding import workspace_of
from pilothouse.runtime.conversations.places import (
    Moved,
    ensure_place,
    former_addresses,
    moved_from,
    moved_key,
    place_id,
)
from pilothouse.runtime.delivery.undelivered import drop
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import approver_chats, may
from pilothouse.runtime.settings import Settings

DAY_S = 86_400.0
MOST_TOLD = 5
"""How many additions by strangers the owners are told of in a day; of one stranger, one."""
MOST_PLACES = 1000
ADDED = (
    "{name} ({user}), who was not let in, added me to “{title}” on {channel}. I say nothing there, and only people "
    "who were let in can talk to me. If you do not want me there, remove me."
)


def move_place(tx: Tx, ids: IdMaker, old: Address, new: Address, at: float) -> bool:
    """From now on `new` is where the conversation of `old` is. False, and nothing changes, if that is known."""
    home, target = place_id(tx, old), conversation_id(new)
    if moved_from(tx, target) is not None or home == target:
        return False
    place = ensure_place(tx, old, at)
    known = Moved(home, (*former_addresses(tx, old), old))
    tx.set_fact(moved_key(target), msgspec.json.encode(known).decode())
    tx.conversations.save(msgspec.structs.replace(place, address=new))
    _take_over(tx, ids, target, home, at)
    for asked in tx.asks.open_in(home):  # the buttons stayed behind
        show_ask_in(tx, ids, asked, home, at, occasion=f"moved:{target}")
    record(tx, at, APP, "conversation.moved", conversation=home, to=target)
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


def arrive(tx: Tx, ids: IdMaker, settings: Settings, here: Presence, greeting: str, at: float) -> bool:
    """Whether somebody who may talk to us added us. In private nothing is said: whoever comes back goes on talking."""
    place = place_id(tx, here.address)
    for one in _there(tx, here):
        if removal_from(tx, one.id):
            note_removal(tx, one.id, None)
    if here.private:
        return True
    if may(
        tx, settings.people, here.by.id, "desk.accept", workspace_of(tx, place, settings.default_workspace)
    ):
        if greeting:
            ensure_place(tx, here.address, at)
            say(tx, ids, place, Content(greeting, "notice"), key=f"arrived:{place}:{here.native_id}", at=at)
        return True
    if tx.tally(f"added:{here.by.id}", at, DAY_S) == 1 and tx.tally("added", at, DAY_S) <= MOST_TOLD:
        _tell_owners(tx, ids, settings, here, at)
    return False


def leave(tx: Tx, ids: IdMaker, settings: Settings, here: Presence, at: float) -> int:
    """How much waited to be said there and is dropped; of an answer somebody hears elsewhere. What runs there runs on:
    its session keeps what came of it."""
    deed = "blocked us" if here.private else f"removed us from “{first_line(here.title)}”"
    why = f"{first_line(here.by.name)} {deed}"
    there = {one.id: one for one in _there(tx, here)}
    for id in there:
        if parent_id(id) not in there:
            note_removal(tx, id, Removal(at, why))
    return sum(_drop(tx, ids, settings, id, at, why) for id in there)


def _tell_owners(tx: Tx, ids: IdMaker, settings: Settings, here: Presence, at: float) -> None:
    text = ADDED.format(
        name=first_line(here.by.name),  # theirs to choose, as is the title: neither writes lines of its own
        user=here.by.id,
        title=first_line(here.title),
        channel=here.address.channel,
    )
    for home in approver_chats(tx, settings.people, Authority(OWNERS)):
        key = f"added:{place_id(tx, here.address)}:{here.native_id}:{home}"
        say(tx, ids, home, Content(text, "notice", dated=True), key=key, at=at)


def _drop(tx: Tx, ids: IdMaker, settings: Settings, place: ConversationId, at: float, why: str) -> int:
    """What is being sent at this moment is refused by the platform, and ends so."""
    dropped = 0
    while rows := [row for row in tx.outbox.unfinished(place) if row.status == "queued"]:
        dropped += sum(drop(tx, ids, settings, row, why, at) for row in rows)
    return dropped


def _there(tx: Tx, here: Presence) -> list[Conversation]:
    """Where somebody talked to us, with the threads; not what has moved, and goes on elsewhere."""
    addresses = {place_id(tx, address): address for address in (here.address, *here.beside)}
    known = tx.conversations.some(addresses)
    left = {id for id, address in addresses.items() if id not in known or known[id].address == address}
    threads = [one for one in tx.conversations.list(limit=MOST_PLACES) if parent_id(one.id) in left]
    return [*(one for id, one in known.items() if id in left), *threads]
