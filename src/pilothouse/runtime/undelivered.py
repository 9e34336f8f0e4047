"""What cannot be delivered is told: where it should have stood, to the session, and, if that place is gone, elsewhere.

Elsewhere is the private chat of whoever asked, else the owners'. Each word of it is a row of the outbox, as patient as
the answer that it is about.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pilothouse.core.approvers import OWNERS, Authority
from pilothouse.core.ids import ConversationId, MessageId, TurnId, UserId
from pilothouse.core.message import Author, Content, InboundMessage
from pilothouse.core.queue import NEVER, QueueRow, notes_lane
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import HOUSE, record
from pilothouse.runtime.outgoing import content_of, say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.standing import home_of, homes_of, may

_KEY = "undelivered:"
ELSEWHERE = (
    "In {place}: {text} Nothing reaches that place any more, so it is said here. On the machine, "
    "`pilothouse trace {turn}` tells all of it."
)


def is_word(row: QueueRow) -> bool:
    """Whether this row itself tells that another one could not be delivered."""
    return row.key.startswith(_KEY)


def tell_here(tx: Tx, ports: Ports, row: QueueRow, why: str, now: float) -> None:
    """Said once, however often it is told. What is a word itself is told nowhere but elsewhere."""
    if is_word(row):
        return
    tail = f" /show {row.turn_id} shows it whole." if row.turn_id else ""
    say(tx, ports.ids, row.conversation_id, Content(why + tail, "notice"), key=f"{_KEY}{row.id}", at=now)


def word_about(tx: Tx, row: QueueRow) -> QueueRow | None:
    """What `tell_here` said."""
    return tx.outbox.by_key(f"{_KEY}{row.id}")


def take_back(tx: Tx, row: QueueRow, now: float) -> None:
    """It was delivered after all."""
    word = word_about(tx, row)
    if word is not None:
        tx.outbox.withdraw(word.id, now, "it was delivered after all")


def give_up(tx: Tx, ports: Ports, row: QueueRow, why: str, now: float) -> None:
    tx.outbox.fail(row.id, now, why)
    if is_word(row):
        _tell_elsewhere(tx, ports, row, now)
        return
    tell_here(tx, ports, row, why, now)
    _tell_session(tx, ports, row, why, now)


def is_told_of(tx: Tx, turn: TurnId, place: ConversationId) -> bool:
    """Whether it was said in this place that the turn's answer could not be delivered in its own."""
    return any(is_word(row) and row.conversation_id == place for row in tx.outbox.of_turn(turn))


def _tell_elsewhere(tx: Tx, ports: Ports, word: QueueRow, now: float) -> None:
    """The word about it did not get there either."""
    row = tx.outbox.get(MessageId(word.key.removeprefix(_KEY).partition(":")[0]))
    if row is None or row.turn_id is None:  # a receipt that nobody waits for
        return
    text = content_of(word).text
    if word.conversation_id == row.conversation_id:
        text = ELSEWHERE.format(place=row.conversation_id, text=text, turn=row.turn_id)
    for places in _elsewhere(tx, ports, row):
        keys = {place: f"{_KEY}{row.id}:{place}" for place in places if place != row.conversation_id}
        if fresh := {place: key for place, key in keys.items() if tx.outbox.by_key(key) is None}:
            for place, key in fresh.items():
                say(tx, ports.ids, place, Content(text, "notice", turn_id=row.turn_id), key=key, at=now)
            return
        if any(_may_arrive(tx, key) for key in keys.values()):
            return
    record(tx, now, HOUSE, "message.undeliverable", message=row.id, conversation=row.conversation_id)


def _elsewhere(tx: Tx, ports: Ports, row: QueueRow) -> Iterator[tuple[ConversationId, ...]]:
    """The places to try, the best first."""
    people, turn = ports.settings().people, tx.turns.get(row.turn_id) if row.turn_id else None
    asked = [user for user in (turn.prompt.authors if turn else ()) if may(tx, people, user, "desk.accept")]
    yield tuple(dict.fromkeys(home for user in asked if (home := home_of(tx, user))))
    yield homes_of(tx, people, Authority(OWNERS))


def _may_arrive(tx: Tx, key: str) -> bool:
    row = tx.outbox.by_key(key)
    return row is not None and row.status != "failed"


def _tell_session(tx: Tx, ports: Ports, row: QueueRow, why: str, now: float) -> None:
    conversation = tx.conversations.get(row.conversation_id)
    if conversation is None:
        return
    author, key = Author(UserId("pilothouse:delivery"), "Pilothouse"), f"{_KEY}{row.id}"
    message = InboundMessage(conversation.address, author, key, why, kind="system", sent_at=now)
    tx.inbox.put(
        id=MessageId(ports.ids("msg")),
        key=key,
        lane=notes_lane(row.conversation_id),
        conversation_id=row.conversation_id,
        kind="system",
        body=msgspec.json.encode(message),
        at=now,
        ready_at=NEVER,
    )
