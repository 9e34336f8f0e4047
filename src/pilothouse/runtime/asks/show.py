"""Showing asks to people: the row first, then a message in every place where it is shown.

Asks of engines have a turn; our own asks have a `topic`, whose answer is handled by `runtime/topics.py`.
In a private chat we know who reads; if they cannot approve the ask, it also goes to people who can. In a group we do
not know, so the route of the approvers decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pilothouse.core.ask import Ask, AskRow, Option, hash_payload, payload_bytes
from pilothouse.core.event import Asked, clean_values
from pilothouse.core.ids import AskId, ConversationId, IdMaker, SessionId, TurnId, UserId
from pilothouse.core.message import Attachment, Content, clean_text
from pilothouse.core.people import Authority, People, may_say_yes
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.runtime.asks.call import complete_call
from pilothouse.runtime.asks.text import ask_text, brief_ask, file_name, is_long
from pilothouse.runtime.audit import record_ask
from pilothouse.runtime.outbox import ask_key, parse_ask_key, say
from pilothouse.runtime.roles import MAX_CHATS, approvers_with_chat, display_name, role_of
from pilothouse.runtime.settings import Settings

NO_PLACE = ConversationId("")
"""The place of an ask whose approvers have no known private chat: only `pilothouse asks` lists it."""

MOST_NAMES = 3
NOBODY = "No one else who may allow it has written to me in private yet; on the machine, `pilothouse asks` lists it."


def make_ask(asked: Ask, settings: Settings, ids: IdMaker, now: float) -> Ask:
    """Give an engine's ask our id, the payload hash and an expiry time. Clear the fields that only Pilothouse may set."""
    wait_s = settings.question_timeout_s if asked.kind == "question" else settings.ask_timeout_s
    return _ready(
        msgspec.structs.replace(asked, expires_at=asked.expires_at or now + wait_s, of_house=False, whose=""),
        ids,
    )


def raise_ask(
    tx: Tx,
    ids: IdMaker,
    asked: Ask,
    *,
    topic: str,
    authority: Authority,
    places: Sequence[ConversationId],
    at: float,
    turn: Turn | None = None,
    about: AskId | None = None,
) -> AskRow:
    """Ask on behalf of Pilothouse. `asked` needs a kind, a title and an `expires_at`; its id and hash are made here.

    `places` show it: usually `approver_chats`. `turn` is the turn that it is about, if any.
    """
    here, *others = places or (NO_PLACE,)
    row = AskRow(
        _ready(msgspec.structs.replace(asked, of_house=True), ids),
        here,
        turn.session_id if turn else SessionId(""),
        turn.id if turn else TurnId(""),
        "",
        "open",
        at,
        authority=authority,
        shown_in=tuple(others),
        topic=topic,
        about=about,
    )
    tx.asks.add(row)
    record_ask(tx, row, topic, at, title=row.ask.title)
    if turn is not None and turn.status in LIVE:
        tx.events.append(turn.conversation_id, turn.id, [Asked(row.ask)], at)
    show_ask(tx, ids, row, at)
    return row


def show_ask(tx: Tx, ids: IdMaker, row: AskRow, at: float) -> None:
    """Show the ask in all its places."""
    say_everywhere(tx, ids, row, _content(tx, row, at), "asked", at)


def is_being_delivered(tx: Tx, row: AskRow, place: ConversationId) -> bool:
    """True while the ask's first message in this place is not delivered yet."""
    asked = tx.outbox.by_key(ask_key(row, "asked", place))
    return asked is not None and asked.ended_at is None


def show_ask_in(
    tx: Tx, ids: IdMaker, row: AskRow, place: ConversationId, at: float, *, occasion: str, before: str = ""
) -> None:
    """Show the ask again in one place."""
    say(tx, ids, place, _content(tx, row, at, before), key=ask_key(row, occasion, place), at=at)


def ask_of(tx: Tx, row: QueueRow) -> AskRow | None:
    """Return the ask that an outbox row is about."""
    key = parse_ask_key(row)
    return None if key is None else tx.asks.get(key.ask)


def tell_places(tx: Tx, ids: IdMaker, row: AskRow, text: str, *, occasion: str, at: float) -> None:
    """Send a notice about an ask to all its places."""
    say_everywhere(tx, ids, row, Content(text, "notice"), occasion, at)


def places_of(row: AskRow) -> tuple[ConversationId, ...]:
    return tuple(place for place in (row.conversation_id, *row.shown_in) if place != NO_PLACE)


def _ready(asked: Ask, ids: IdMaker) -> Ask:
    title = clean_text(asked.title)
    payload = clean_values(asked.payload) or {"title": title}
    return msgspec.structs.replace(
        asked,
        id=AskId(ids("ask")),
        title=title,
        options=tuple(Option(clean_text(o.key), clean_text(o.label)) for o in asked.options),
        payload=payload,
        call=complete_call(asked),
        payload_hash=hash_payload(payload),
    )


def _content(tx: Tx, row: AskRow, at: float, before: str = "") -> Content:
    """Build the message; a long payload is attached as a file."""
    files, ask = _files(tx, row.ask, at), brief_ask(row.ask)
    text = ask_text(ask, row.authority, before)
    return Content(text, "ask", files, turn_id=row.turn_id or None, ask=ask)


def _files(tx: Tx, ask: Ask, at: float) -> tuple[Attachment, ...]:
    """Attach the hashed bytes themselves, so that people can verify the hash."""
    if not is_long(ask):
        return ()
    return (tx.blobs.attach(payload_bytes(ask.payload), file_name(ask), "application/json", at),)


def say_everywhere(tx: Tx, ids: IdMaker, row: AskRow, content: Content, occasion: str, at: float) -> None:
    for place in places_of(row):
        say(tx, ids, place, content, key=ask_key(row, occasion, place), at=at)


def route_ask(
    tx: Tx, people: People, authority: Authority, here: ConversationId
) -> tuple[tuple[ConversationId, ...], str]:
    """Return the other places that show an ask, and a text that says whose it is; empty if its own conversation is
    enough."""
    place, quorum = tx.conversations.get(here), authority.approvers.quorum
    is_private, stays = place is not None and place.private, authority.approvers.route == "here"
    present = _able_requesters(tx, people, authority) if is_private else set()
    if stays and (not is_private or len(present) >= quorum):
        return (), ""  # before the expensive search through all people
    able = approvers_with_chat(tx, people, authority)
    present |= {user for user, home in able.items() if home == here}
    is_stuck = is_private and len(present) < quorum
    elsewhere = {user: home for user, home in able.items() if home != here}
    if not is_stuck and (stays or not elsewhere):
        return (), ""
    places = tuple(dict.fromkeys(elsewhere.values()))[:MAX_CHATS]
    asked = [user for user, home in elsewhere.items() if home in places]
    who = ", ".join(display_name(tx, user) for user in authority.requesters)
    where = "in their own chat" if is_private else f"in {here}"
    return places, f"{f'{who}, {where}' if who else f'what runs in {here}'}. {_asked(tx, asked)}"


def _able_requesters(tx: Tx, people: People, authority: Authority) -> set[UserId]:
    return {
        user
        for user in authority.requesters
        if may_say_yes(authority, user, role_of(tx, people, user, authority.workspace))
    }


def _asked(tx: Tx, users: list[UserId]) -> str:
    if not users:
        return NOBODY
    named = ", ".join(display_name(tx, user) for user in users[:MOST_NAMES])
    more = len(users) - MOST_NAMES
    return f"Asked: {named}{f' and {more} more' if more > 0 else ''}."
