"""Reacts when we are added to a place, removed from it, or when it gets a new address.

People who may talk to us are greeted where they added us. If a stranger adds us, only the owners are told, at a bounded
rate. A place that removed us is sent nothing until it adds us again.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId, IdMaker, MessageId
from pilothouse.core.message import Address, Content, Presence, conversation_id, parent_id
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.queue import notes_waitlist
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.show import show_ask_in
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.channel_status import Removal, note_removal, removal_from
from pilothouse.runtime.conversations.binding import workspace_of
from pilothouse.runtime.conversations.places import (
    Moved,
    ensure_place,
    former_addresses,
    moved_from,
    place_id,
)
from pilothouse.runtime.delivery.undelivered import drop_message
from pilothouse.runtime.facts import ADDED, MOVED, save_fact
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import approver_chats, may
from pilothouse.runtime.settings import Settings

DAY_S = 86_400.0
MAX_TOLD = 5
"""Additions by strangers that the owners are told of in a day; one per stranger."""
MAX_PLACES = 1000
ADDED_BY_STRANGER = (
    "{name} ({user}), who was not let in, added me to “{title}” on {channel}. I post nothing there, and only people "
    "who were let in can talk to me. If you do not want me there, remove me."
)


def move_place(tx: Tx, ids: IdMaker, old: Address, new: Address, at: float) -> bool:
    """Give the conversation of `old` the address `new`. False if that move is already known."""
    home, target = place_id(tx, old), conversation_id(new)
    if moved_from(tx, target) is not None or home == target:
        return False
    place = ensure_place(tx, old, at)
    known = Moved(home, (*former_addresses(tx, old), old))
    save_fact(tx, MOVED.of(target), known)
    tx.conversations.save(msgspec.structs.replace(place, address=new))
    _adopt_messages(tx, ids, target, home, at)
    for asked in tx.asks.open_in(home):  # their buttons are at the old address
        show_ask_in(tx, ids, asked, home, at, occasion=f"moved:{target}")
    record(tx, at, APP, "conversation.moved", conversation=home, to=target)
    return True


def _adopt_messages(tx: Tx, ids: IdMaker, stray: ConversationId, home: ConversationId, at: float) -> None:
    """Requeue messages that arrived under the new address before we learned of the move."""
    for row in (*tx.inbox.waiting(stray), *tx.inbox.waiting(notes_waitlist(stray))):
        waitlist = notes_waitlist(home) if row.waitlist == notes_waitlist(stray) else home
        tx.inbox.withdraw(row.id, at, f"its place is {home}")
        tx.inbox.put(
            id=MessageId(ids("msg")),
            key=f"{row.key}|moved",
            waitlist=waitlist,
            conversation_id=home,
            kind=row.kind,
            body=bytes(row.body),
            at=at,
            ready_at=row.ready_at,
        )


def arrive(tx: Tx, ids: IdMaker, settings: Settings, here: Presence, greeting: str, at: float) -> bool:
    """Greet, or tell the owners. Returns whether somebody with access added us. Private chats get no greeting."""
    place = place_id(tx, here.address)
    for one in _conversations_at(tx, here):
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
    if tx.tally(ADDED.of(here.by.id), at, DAY_S) == 1 and tx.tally(ADDED.name, at, DAY_S) <= MAX_TOLD:
        _tell_owners(tx, ids, settings, here, at)
    return False


def leave(tx: Tx, ids: IdMaker, settings: Settings, here: Presence, at: float) -> int:
    """Drop what waits to be sent there and return how much; lost answers are reported elsewhere. Running turns go on:
    their session keeps the result."""
    deed = "blocked us" if here.private else f"removed us from “{first_line(here.title)}”"
    why = f"{first_line(here.by.name)} {deed}"
    there = {one.id: one for one in _conversations_at(tx, here)}
    for id in there:
        if parent_id(id) not in there:
            note_removal(tx, id, Removal(at, why))
    return sum(_drop_waiting(tx, ids, settings, id, at, why) for id in there)


def _tell_owners(tx: Tx, ids: IdMaker, settings: Settings, here: Presence, at: float) -> None:
    text = ADDED_BY_STRANGER.format(
        name=first_line(here.by.name),  # chosen by the stranger, like the title: must not add lines
        user=here.by.id,
        title=first_line(here.title),
        channel=here.address.channel,
    )
    for home in approver_chats(tx, settings.people, Authority(OWNERS)):
        key = f"added:{place_id(tx, here.address)}:{here.native_id}:{home}"
        say(tx, ids, home, Content(text, "notice", dated=True), key=key, at=at)


def _drop_waiting(
    tx: Tx, ids: IdMaker, settings: Settings, place: ConversationId, at: float, why: str
) -> int:
    """Drop the queued rows. A row that is being sent right now is refused by the platform."""
    dropped = 0
    while rows := [row for row in tx.outbox.unfinished(place) if row.status == "queued"]:
        dropped += sum(drop_message(tx, ids, settings, row, why, at) for row in rows)
    return dropped


def _conversations_at(tx: Tx, here: Presence) -> list[Conversation]:
    """Return the conversations of a place and their threads, without those that moved elsewhere."""
    addresses = {place_id(tx, address): address for address in (here.address, *here.beside)}
    known = tx.conversations.some(addresses)
    left = {id for id, address in addresses.items() if id not in known or known[id].address == address}
    threads = [one for one in tx.conversations.list(limit=MAX_PLACES) if parent_id(one.id) in left]
    return [*(one for id, one in known.items() if id in left), *threads]
