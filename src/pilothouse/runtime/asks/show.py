"""Puts an ask before people: the row first, then what they see of it, in every place where it is shown.

Whoever asks, an engine or the house itself, ends up here. What the house asks has a `topic`, and what becomes of its
answer stands in `topics.py`.

Whom an ask of a turn reaches besides the people of its conversation, and what everybody reads about that.

In a private chat it is known who is there. If they are not enough to say yes, the ask would wait there for nobody: so it
goes to those who may, whatever the route. Of a room nobody knows who reads it, and its route decides.
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
from pilothouse.runtime.asks.text import ask_words, brief_ask, file_name, is_long
from pilothouse.runtime.audit import record_ask
from pilothouse.runtime.outbox import say
from pilothouse.runtime.roles import MOST_HOMES, able_at_home, call_by_name, role_of
from pilothouse.runtime.settings import Settings

NOWHERE = ConversationId("")
"""Of an ask that nobody's private chat is known for: `pilothouse asks` still lists it."""

MOST_NAMES = 3
NOBODY = "Nobody else who may allow it has written to me in private yet; on the machine, `pilothouse asks` lists it."


def make_ask(asked: Ask, settings: Settings, ids: IdMaker, now: float) -> Ask:
    """The ask under our id, with the hash that an answer must name and the time it has. No engine speaks for the house."""
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
    """An ask of the house itself. `asked` needs a kind, a title and an `expires_at`; its id and hash are made here.

    `places` are where it is shown: usually `homes_of` those who may answer. It is about `turn`, or about none.
    """
    here, *others = places or (NOWHERE,)
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
    """In every place of it."""
    say_everywhere(tx, ids, row, _content(tx, row, at), "asked", at)


def is_on_its_way(tx: Tx, row: AskRow, place: ConversationId) -> bool:
    """Nobody was shown it there yet, or nobody knows: it will be."""
    asked = tx.outbox.by_key(ask_key(row, "asked", place))
    return asked is not None and asked.ended_at is None


def show_ask_in(
    tx: Tx, ids: IdMaker, row: AskRow, place: ConversationId, at: float, *, occasion: str, before: str = ""
) -> None:
    """Once more, in one place of it."""
    say(tx, ids, place, _content(tx, row, at, before), key=ask_key(row, occasion, place), at=at)


def ask_of(tx: Tx, row: QueueRow) -> AskRow | None:
    """The ask that a row of the outbox is about."""
    match row.key.split(":"):
        case ["ask", id, *_]:
            return tx.asks.get(AskId(id))
        case _:
            return None


def tell_places(tx: Tx, ids: IdMaker, row: AskRow, text: str, *, occasion: str, at: float) -> None:
    """A word about an ask, wherever it is shown."""
    say_everywhere(tx, ids, row, Content(text, "notice"), occasion, at)


def places_of(row: AskRow) -> tuple[ConversationId, ...]:
    return tuple(place for place in (row.conversation_id, *row.shown_in) if place != NOWHERE)


def _ready(asked: Ask, ids: IdMaker) -> Ask:
    title = clean_text(asked.title)
    payload = clean_values(asked.payload) or {"title": title}
    return msgspec.structs.replace(
        asked,
        id=AskId(ids("ask")),
        title=title,
        options=tuple(Option(clean_text(o.key), clean_text(o.label)) for o in asked.options),
        payload=payload,
        payload_hash=hash_payload(payload),
    )


def _content(tx: Tx, row: AskRow, at: float, before: str = "") -> Content:
    """A payload that is too long to be read goes along as a file, whole."""
    files, ask = _files(tx, row.ask, at), brief_ask(row.ask)
    text = ask_words(ask, row.authority, before)
    return Content(text, "ask", files, turn_id=row.turn_id or None, ask=ask)


def _files(tx: Tx, ask: Ask, at: float) -> tuple[Attachment, ...]:
    """The bytes that the hash is of: whoever wants to can check that this is what an answer is bound to."""
    if not is_long(ask):
        return ()
    return (tx.blobs.attach(payload_bytes(ask.payload), file_name(ask), "application/json", at),)


def say_everywhere(tx: Tx, ids: IdMaker, row: AskRow, content: Content, occasion: str, at: float) -> None:
    for place in places_of(row):
        say(tx, ids, place, content, key=ask_key(row, occasion, place), at=at)


def ask_key(row: AskRow, occasion: str, place: ConversationId) -> str:
    elsewhere = "" if place == row.conversation_id else f":{place}"
    return f"ask:{row.ask.id}:{occasion}{elsewhere}"


def reach(
    tx: Tx, people: People, authority: Authority, here: ConversationId
) -> tuple[tuple[ConversationId, ...], str]:
    """The other places where it is shown, and whose it is, in words; nothing, where its own conversation is enough."""
    place, quorum = tx.conversations.get(here), authority.approvers.quorum
    is_private, stays = place is not None and place.private, authority.approvers.route == "here"
    present = _able_requesters(tx, people, authority) if is_private else set()
    if stays and (not is_private or len(present) >= quorum):
        return (), ""  # and nobody is looked for, which would read everybody
    able = able_at_home(tx, people, authority)
    present |= {user for user, home in able.items() if home == here}
    is_stuck = is_private and len(present) < quorum
    elsewhere = {user: home for user, home in able.items() if home != here}
    if not is_stuck and (stays or not elsewhere):
        return (), ""
    places = tuple(dict.fromkeys(elsewhere.values()))[:MOST_HOMES]
    asked = [user for user, home in elsewhere.items() if home in places]
    who = ", ".join(call_by_name(tx, user) for user in authority.requesters)
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
    named = ", ".join(call_by_name(tx, user) for user in users[:MOST_NAMES])
    more = len(users) - MOST_NAMES
    return f"Asked: {named}{f' and {more} more' if more > 0 else ''}."
