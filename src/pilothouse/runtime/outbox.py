"""Puts messages into the outbox, always inside the caller's transaction, and makes the keys that are looked up again.

A key makes a message unique. Keys are stored, so their text never changes. A key that is made in one place and never
looked up is written where its message is made.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from pilothouse.core.ask import AskRow
from pilothouse.core.ids import AskId, ChannelId, ConversationId, IdMaker, MessageId, SessionId, TurnId
from pilothouse.core.message import Content, InboundMessage, MessageRef, clean_text
from pilothouse.core.queue import QueueRow
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.text import moment

LATE_S = 120.0
"""A dated message that is delivered later than this starts with its time."""
REPLIES = "reply:"
"""The beginning of `reply_key`."""
_NOTICES = "undelivered:"
_TOOLS = "tool:"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Content).decode


def reply_key(message: MessageId) -> str:
    """Return the key of the reply to a command."""
    return f"{REPLIES}{message}"


def end_key(turn: TurnId) -> str:
    """Return the key of a turn's last message."""
    return f"end:{turn}"


def end_elsewhere_key(turn: TurnId, place: ConversationId) -> str:
    """Return the key of the copy of a turn's last message in another place, where somebody answered its ask."""
    return f"end:{turn}:{place}"


def retired_key(session: SessionId) -> str:
    """Return the key of the notice that a session could not be resumed."""
    return f"retired:{session}"


def notice_key(undelivered: MessageId, elsewhere: ConversationId | None = None) -> str:
    """Return the key of the notice about an undelivered row, in its own conversation or elsewhere."""
    return f"{_NOTICES}{undelivered}:{elsewhere}" if elsewhere else f"{_NOTICES}{undelivered}"


def row_of_notice(row: QueueRow) -> MessageId | None:
    """Return the undelivered row that a notice is about; None if this row is no such notice."""
    is_notice = row.key.startswith(_NOTICES)
    return MessageId(row.key.removeprefix(_NOTICES).partition(":")[0]) if is_notice else None


def alert_key(channel: ChannelId, at: float, state: Literal["trouble", "over"], place: ConversationId) -> str:
    return f"{_alerts(channel)}{at}:{state}:{place}"


def is_alert(row: QueueRow, channel: ChannelId) -> bool:
    return row.key.startswith(_alerts(channel))


def _alerts(channel: ChannelId) -> str:
    return f"alert:{channel}:"


def tool_key(turn: TurnId, tool: str, digest: str, count: int) -> str:
    """Return the key of a row that an agent's tool made."""
    return f"{_TOOLS}{turn}:{tool}:{digest}:{count}"


def tool_of(row: QueueRow) -> str | None:
    """Return the tool that made a row; None if no tool did."""
    return row.key.split(":")[2] if row.key.startswith(_TOOLS) else None


SAY = "/say "
"""The line of a button that sends words as a message of the person who presses it."""


class Edit(Struct, frozen=True):
    """The body of a row that changes the text of a sent message."""

    ref: MessageRef
    content: Content


class Reaction(Struct, frozen=True):
    ref: MessageRef
    emoji: str


class AskKey(Struct, frozen=True):
    """The parsed key of a message about an ask. `rest` is the rest of the occasion, and the place if it is not the
    ask's own conversation."""

    ask: AskId
    occasion: str
    rest: tuple[str, ...]

    def on(self, occasion: str) -> str:
        """Return the key of the message that the same place gets on another occasion."""
        return ":".join(("ask", self.ask, occasion, *self.rest))


def ask_key(row: AskRow, occasion: str, place: ConversationId) -> str:
    elsewhere = "" if place == row.conversation_id else f":{place}"
    return f"ask:{row.ask.id}:{occasion}{elsewhere}"


def parse_ask_key(row: QueueRow) -> AskKey | None:
    match row.key.split(":", 3):
        case ["ask", id, occasion, *rest]:
            return AskKey(AskId(id), occasion, tuple(rest))
        case _:
            return None


def say(
    tx: Tx, ids: IdMaker, conversation_id: ConversationId, content: Content, *, key: str, at: float
) -> None:
    """Queue a message. `key` makes it unique: a second message with the same key is dropped."""
    content = msgspec.structs.replace(content, text=clean_text(content.text))
    tx.outbox.put(
        id=MessageId(ids("out")),
        key=key,
        conversation_id=conversation_id,
        kind=content.kind,
        body=_encode(content),
        at=at,
        turn_id=content.turn_id,
    )


def is_unsent(tx: Tx, row: QueueRow) -> bool:
    """True if no part of the row can have been shown, so that it may still be withdrawn."""
    return all(part.state == "pending" for part in tx.outbox.parts(row.id))


def was_shown_before(tx: Tx, row: AskRow, place: ConversationId, message: InboundMessage) -> bool:
    """Tell whether the ask was shown in this place before the message was sent; if not, the message is about something
    else. The numbers of a platform that counts its messages tell; else times, which are of two clocks and whole seconds."""
    home = next((one for one in row.shown_in if split_task_place(one)[0] == place), row.conversation_id)
    asked = tx.outbox.by_key(ask_key(row, "asked", home))
    part = next(iter(tx.outbox.parts(asked.id)[-1:]), None) if asked is not None else None
    shown_at = row.asked_at
    if asked is not None and asked.ended_at is None:
        is_first = asked.status == "claimed" and asked.attempts == 1
        if is_first or is_unsent(tx, asked):
            return False
    elif asked is not None and asked.ended_at is not None and (part is None or part.sends <= 1):
        shown_at = asked.ended_at
        ref = part.ref if part is not None else None
        here = ref is not None and ref.address.place == message.address.place
        if ref is not None and here and ref.native_id.isdecimal() and message.native_id.isdecimal():
            return int(ref.native_id) < int(message.native_id)
    # What was sent more than once may have been seen the first time.
    return not 0 < message.sent_at <= shown_at - 1


def content_of(row: QueueRow) -> Content:
    return _decode(row.body)


def content_at(row: QueueRow, now: float) -> Content:
    """Return the content as shown now: a late dated message starts with its time."""
    content = content_of(row)
    if not content.dated or now - row.created_at < LATE_S:
        return content
    when = moment(row.created_at, now)
    return msgspec.structs.replace(content, text=f"{when[0].upper()}{when[1:]}: {content.text}")
