"""Messages that were not delivered: when they are sent again, and who is told.

A message that the platform did not confirm is sent again after pauses that double, up to five minutes. The pauses are kept
in the store, so a restart shortens none of them. A channel that was in trouble and is well again ends them, once.

A message that could not be delivered is reported in its conversation, to the session, or else elsewhere: in the private chat
of the people who asked, then of the owners. Each notice is a row of the outbox and retried like the message it is about. An
ask that is still open is instead shown to others who may answer it.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pilothouse.core.ask import AskRow
from pilothouse.core.ids import ChannelId, ConversationId, IdMaker, MessageId, TurnId, UserId
from pilothouse.core.message import Author, Content, InboundMessage
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.queue import CHANGES, NEVER, QueueRow, notes_waitlist
from pilothouse.core.store import Tx
from pilothouse.core.text import excerpt
from pilothouse.core.turn import ENDED
from pilothouse.runtime.asks.show import ask_of, places_of, show_ask_in
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.conversations.follow_up import RESPONSE, put_follow_up
from pilothouse.runtime.outbox import (
    ask_key,
    content_of,
    end_elsewhere_key,
    notice_key,
    row_of_notice,
    say,
    tool_of,
)
from pilothouse.runtime.roles import approver_chats, may, private_chat_of
from pilothouse.runtime.settings import Settings, exponential_s

REFUSED = "A message could not be delivered ({reason}): {text}"
ELSEWHERE = (
    "In {place}: {text} Nothing reaches that place any more, so you are told here. "
    "/show {turn} shows the answer in full."
)

WAITS = "{why} It still waits for an answer: /show {ask} shows it in full, and `pilothouse asks` on the machine answers it."
ASKED_ELSEWHERE = "Nothing reaches {place} any more, so this is asked here. `pilothouse asks` on the machine can answer it too.\n\n"


def post_notice(tx: Tx, ids: IdMaker, row: QueueRow, why: str, at: float) -> None:
    """Post a notice in the row's conversation, once. An undelivered notice is only reported elsewhere."""
    if row_of_notice(row) is None:
        notice = Content(_notice_text(tx, row, why), "notice")
        say(tx, ids, row.conversation_id, notice, key=notice_key(row.id), at=at)


def delivery_notice(tx: Tx, row: QueueRow) -> QueueRow | None:
    """Return the notice that `post_notice` posted about a row."""
    return tx.outbox.by_key(notice_key(row.id))


def retract_notice(tx: Tx, row: QueueRow, at: float) -> None:
    """Withdraw the notice: the row was delivered after all."""
    notice = delivery_notice(tx, row)
    if notice is not None:
        tx.outbox.withdraw(notice.id, at, "it was delivered after all")


def give_up(tx: Tx, ids: IdMaker, settings: Settings, row: QueueRow, why: str, at: float) -> None:
    tx.outbox.fail(row.id, at, why)
    if about := row_of_notice(row):
        _forward_notice(tx, ids, settings, row, about, at)
    elif row.kind not in CHANGES:
        post_notice(tx, ids, row, why, at)
        _tell_session(tx, ids, row, why, at)
    elif tool_of(row) is not None:
        _tell_session(tx, ids, row, why, at)


def drop_message(tx: Tx, ids: IdMaker, settings: Settings, row: QueueRow, why: str, at: float) -> bool:
    """Drop a row of a place that removed us, and report it elsewhere. False if it is being sent."""
    if not tx.outbox.withdraw(row.id, at, why):
        return False
    if about := row_of_notice(row):
        _forward_notice(tx, ids, settings, row, about, at)
    elif row.kind not in CHANGES:
        said = _notice_text(tx, row, REFUSED.format(reason=why, text=_beginning(row)))
        _report_elsewhere(tx, ids, settings, row, _from_there(row, said), at)
    return True


def was_told_in(tx: Tx, turn: TurnId, place: ConversationId) -> bool:
    """Tell whether this place got a copy of the turn's answer, or was told that it could not be delivered."""
    if tx.outbox.by_key(end_elsewhere_key(turn, place)) is not None:
        return True
    return any(row_of_notice(row) and row.conversation_id == place for row in tx.outbox.of_turn(turn))


def _notice_text(tx: Tx, row: QueueRow, why: str) -> str:
    asked = _ask_of(tx, row)
    if asked is not None and asked.state == "open":
        return WAITS.format(why=why, ask=asked.ask.id)
    return f"{why} /show {row.turn_id} shows it in full." if row.turn_id and asked is None else why


def _ask_of(tx: Tx, row: QueueRow) -> AskRow | None:
    return ask_of(tx, row) if row.kind == "ask" else None


def _beginning(row: QueueRow) -> str:
    try:
        return excerpt(content_of(row))
    except msgspec.DecodeError:  # the row is unreadable, so its text is unknown
        return ""


def _from_there(row: QueueRow, text: str) -> str:
    return ELSEWHERE.format(place=row.conversation_id, text=text, turn=row.turn_id)


def _forward_notice(
    tx: Tx, ids: IdMaker, settings: Settings, notice: QueueRow, about: MessageId, at: float
) -> None:
    """Report elsewhere what an undelivered notice was about."""
    row = tx.outbox.get(about)
    if row is not None:
        text = content_of(notice).text
        if notice.conversation_id == row.conversation_id:
            text = _from_there(row, text)
        _report_elsewhere(tx, ids, settings, row, text, at)


def _report_elsewhere(tx: Tx, ids: IdMaker, settings: Settings, row: QueueRow, text: str, at: float) -> None:
    asked = _ask_of(tx, row)
    if asked is not None:
        _ask_elsewhere(tx, ids, settings, row, asked, at)
    elif row.turn_id is not None:  # else it is a receipt, which is not worth a notice
        _tell_elsewhere(tx, ids, settings, row, text, at)


def _ask_elsewhere(tx: Tx, ids: IdMaker, settings: Settings, row: QueueRow, asked: AskRow, at: float) -> None:
    """Show an open ask in the private chats of those who may answer it; a settled one needs no showing."""
    shown = places_of(asked)
    others = [place for place in shown if place != row.conversation_id]
    if asked.state != "open" or any(_may_arrive(tx, ask_key(asked, "asked", place)) for place in others):
        return
    homes = [home for home in approver_chats(tx, settings.people, asked.authority) if home not in shown]
    if not homes:
        _note_undeliverable(tx, row, at)
        return
    asked = tx.asks.show_in(asked.ask.id, homes)
    before = ASKED_ELSEWHERE.format(place=row.conversation_id)
    for home in homes:
        show_ask_in(tx, ids, asked, home, at, occasion="asked", before=before)


def _tell_elsewhere(tx: Tx, ids: IdMaker, settings: Settings, row: QueueRow, text: str, at: float) -> None:
    for places in _elsewhere(tx, settings, row):
        keys = {place: notice_key(row.id, place) for place in places if place != row.conversation_id}
        if fresh := {place: key for place, key in keys.items() if tx.outbox.by_key(key) is None}:
            for place, key in fresh.items():
                content = Content(text, "notice", turn_id=row.turn_id, dated=True)
                say(tx, ids, place, content, key=key, at=at)
            return
        if any(_may_arrive(tx, key) for key in keys.values()):
            return
    _note_undeliverable(tx, row, at)


def _note_undeliverable(tx: Tx, row: QueueRow, at: float) -> None:
    record(tx, at, APP, "message.undeliverable", message=row.id, conversation=row.conversation_id)


def _elsewhere(tx: Tx, settings: Settings, row: QueueRow) -> Iterator[tuple[ConversationId, ...]]:
    """Yield the places to try, the best first."""
    people, turn = settings.people, tx.turns.get(row.turn_id) if row.turn_id else None
    asked = [user for user in (turn.prompt.authors if turn else ()) if may(tx, people, user, "desk.accept")]
    yield tuple(dict.fromkeys(home for user in asked if (home := private_chat_of(tx, user))))
    yield approver_chats(tx, people, Authority(OWNERS))


def _may_arrive(tx: Tx, key: str) -> bool:
    row = tx.outbox.by_key(key)
    return row is not None and row.status not in ("failed", "withdrawn")


def _tell_session(tx: Tx, ids: IdMaker, row: QueueRow, why: str, at: float) -> None:
    """Tell the session: by a follow-up if a tool's message failed after its turn, else in its next turn. What a tool sent
    elsewhere is told where its turn came from."""
    tool = tool_of(row)
    turn = tx.turns.get(row.turn_id) if row.turn_id and tool else None
    if turn is not None:
        starts = turn.status in ENDED and row.kind not in CHANGES
        text = RESPONSE.format(action=tool, status="failed", result=why)
        heading = f"not delivered: {_beginning(row)}"
        put_follow_up(tx, ids, turn, key=notice_key(row.id), heading=heading, text=text, at=at, starts=starts)
        return
    place = row.conversation_id
    conversation = tx.conversations.get(place)
    if conversation is None:
        return
    author, key = Author(UserId("pilothouse:delivery"), "Pilothouse"), notice_key(row.id)
    message = InboundMessage(conversation.address, author, key, why, kind="system", sent_at=at)
    tx.inbox.put(
        id=MessageId(ids("msg")),
        key=key,
        waitlist=notes_waitlist(place),
        conversation_id=place,
        kind="system",
        body=msgspec.json.encode(message),
        at=at,
        ready_at=NEVER,
    )


MAX_SENDS = 200
"""With pauses of at most five minutes: most of a day. A change of a message that was sent has as many tries."""
QUICK_SENDS = 3
"""Sends before people are told. A short network failure rarely takes more."""
OWN_FAULT_SENDS = 8
"""Sends before the message is given up although its notice arrived: then the platform works and this message fails."""
PLACES_AT_ONCE = 500


def resend_pause_s(settings: Settings, sends: int) -> float:
    return exponential_s(settings.retry_first_s, settings.doubt_cap_s, sends)


def resend_now(tx: Tx, channel: ChannelId, at: float) -> None:
    """Make the first unconfirmed message of each conversation ready: the channel is well again."""
    for head in tx.outbox.deliverable(NEVER, channels=[channel], limit=PLACES_AT_ONCE):
        row = _first_message(tx, head.conversation_id)
        if row is not None and row.ready_at > at and _is_unconfirmed(tx, row):
            tx.outbox.rewrite(row.id, bytes(row.body), ready_at=at)


def _first_message(tx: Tx, conversation_id: ConversationId) -> QueueRow | None:
    """Return the first unfinished row that is a message: a postponed change blocks none."""
    return next((row for row in tx.outbox.unfinished(conversation_id) if row.kind not in CHANGES), None)


def _is_unconfirmed(tx: Tx, row: QueueRow) -> bool:
    return any(part.state == "sending" for part in tx.outbox.parts(row.id))
