"""Joins the updates that are one message: an album, the pieces of a paste, forwards and their comment. Pure.

Telegram tells neither the number of pieces nor the last one, so a group is complete when it was quiet for a while, or
when its sender sends something else. A plain text waits for nothing: it is joined with forwards that came in the same poll. A later piece is a message of its own. Within a conversation nothing overtakes:
later messages wait behind a group that may still grow.

Telegram's apps cut a text of more than 4096 units without a mark. Desktop cuts in the second half, at the end of a
line, else of a sentence, else of a word; Android in the last 300 units, alike; iOS after the last line end or full
stop. Without any of these, all cut hard. White space at a cut is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from pilothouse.channels.telegram.content import address_of, author_of, replied_to
from pilothouse.channels.telegram.payload import TEXT
from pilothouse.channels.telegram.wire import Entity, Message, Update
from pilothouse.channels.telegram.written import BLOCKS
from pilothouse.channels.text import utf16_units
from pilothouse.core.message import Address

SPLIT_LEAST = TEXT // 2
"""No app cuts earlier, except for odd texts on iOS."""
SPLIT_GAP_S = 5
"""Longest time between two pieces, for a slow phone. Telegram counts whole seconds."""
FORWARD_GAP_S = 2
DROPPED_MOST = 64
"""White space that an app may have dropped between two pieces: blank lines, indentation."""
LOOKED_BACK = 300
QUIET_S = 1.0
"""An album or a cut text is complete after this time without a new piece."""


class LastPiece(Struct, frozen=True):
    """Facts about a message by which its next piece is recognised."""

    message_id: int
    date: int
    album: str | None = None
    units: int = 0
    """Length of a text that may have been cut, else 0."""
    reply: int | None = None
    solid: bool = False
    """It was cut hard, probably within a word."""
    lines: bool = False
    """It has a line end where an app would have cut."""
    stop: bool = False
    """It ends with a full stop."""
    block: bool = False
    """It ends within code or a quotation."""
    before_forwards: bool = False
    """It is a comment or a forward, so forwards may follow."""
    forward: bool = False


def last_piece(message: Message) -> LastPiece | None:
    """Return the facts; None if no piece can follow."""
    text, forward = message.text or "", message.forward_origin is not None
    piece = LastPiece(message.message_id, message.date, message.media_group_id)
    if text and not forward:
        answered = replied_to(message)
        piece = msgspec.structs.replace(
            piece,
            units=utf16_units(text) if utf16_units(text) >= SPLIT_LEAST else 0,
            reply=None if answered is None else answered.message_id,
            solid=_was_cut_hard(text),
            lines="\n" in _second_half(text),
            stop=text.endswith("."),
            block=any(one.offset + one.length == utf16_units(text) for one in _blocks(message)),
        )
    comment = bool(text) and not text.startswith("/")
    piece = msgspec.structs.replace(piece, before_forwards=forward or comment, forward=forward)
    return piece if piece.album or piece.units or piece.before_forwards else None


def expects_more(piece: LastPiece) -> bool:
    """Tell whether another piece is likely: of an album, or of a long text."""
    return piece.album is not None or piece.units > 0


def is_next_piece(piece: LastPiece, message: Message) -> bool:
    """Tell whether a message by the same sender in the same conversation is the next piece."""
    if _same_album(piece, message):
        return True
    gap_s = message.date - piece.date
    if message.message_id <= piece.message_id or gap_s < 0:
        return False
    if message.forward_origin is not None:
        return piece.before_forwards and gap_s <= FORWARD_GAP_S
    return (
        message.media_group_id is None
        and piece.album is None
        and gap_s <= SPLIT_GAP_S
        and _was_cut(piece, message)
    )


def is_same_sender(one: Message, other: Message) -> bool:
    return address_of(one) == address_of(other) and author_of(one) == author_of(other)


def text_between(piece: LastPiece, message: Message) -> str:
    """Guess the text that an app dropped between two pieces. In doubt white space: joined words are worse."""
    text = message.text or ""
    if not piece.units or not text or message.forward_origin is not None:
        return "\n"
    if piece.block or any(one.offset == 0 for one in _blocks(message)):
        return "\n"
    if piece.solid or (piece.stop and (text[0].islower() or text[0].isdigit())):
        return ""
    next_word = utf16_units(text.split(maxsplit=1)[0]) if text.split() else 0
    return "\n" if piece.lines or piece.units + 1 + next_word <= TEXT else " "


def _blocks(message: Message) -> Iterator[Entity]:
    return (one for one in message.entities if one.type in BLOCKS)


def _same_album(piece: LastPiece, message: Message) -> bool:
    return piece.album is not None and piece.album == message.media_group_id


def _was_cut(piece: LastPiece, message: Message) -> bool:
    """Tell whether an app cut the text here. Two texts that would fit into one message are two messages."""
    answered = replied_to(message)
    return (
        message.text is not None
        and piece.units > 0
        and piece.units + utf16_units(message.text) > TEXT - DROPPED_MOST
        and (answered is None or answered.message_id == piece.reply)
    )


def _was_cut_hard(text: str) -> bool:
    """Tell whether it is full and has no place for a softer cut. Android looks back the least; iOS ignores spaces."""
    full = utf16_units(text) >= TEXT - 1
    return full and not (any(map(str.isspace, text[-LOOKED_BACK:])) and ("\n" in text or "." in text))


def _second_half(text: str) -> str:
    data = text.encode("utf-16-le", "surrogatepass")
    return data[SPLIT_LEAST * 2 :].decode("utf-16-le", "replace")


class SeenUpdate(Struct, frozen=True):
    """An update and the monotonic time when it arrived."""

    update: Update
    seen_at: float


class Gathered(Struct, frozen=True):
    """`ready` are complete, in order; `held` may still grow, or wait behind a group that may. Look again in `wait_s`."""

    ready: tuple[tuple[Update, ...], ...]
    held: tuple[SeenUpdate, ...]
    wait_s: float = 0.0


class _Group:
    """The pieces of one message so far."""

    def __init__(self, one: SeenUpdate, forward_wait_s: float) -> None:
        self._forward_wait_s = forward_wait_s
        self.seen: list[SeenUpdate] = []
        self.place = place_of(one.update)
        self.closed = False
        self.add(one)

    def add(self, one: SeenUpdate) -> None:
        self.seen.append(one)
        self.last = message_of(one.update)
        self._last_piece = None if self.last is None else last_piece(self.last)

    def is_by_sender_of(self, message: Message) -> bool:
        return self.last is not None and is_same_sender(self.last, message)

    def accepts(self, message: Message) -> bool:
        return (
            not self.closed
            and self._last_piece is not None
            and self.is_by_sender_of(message)
            and is_next_piece(self._last_piece, message)
        )

    def wait_s(self, now: float) -> float:
        if self._last_piece is None or self.closed:
            return 0.0
        forward_wait_s = self._forward_wait_s if self._last_piece.forward else 0.0
        quiet_s = QUIET_S if expects_more(self._last_piece) else forward_wait_s
        return max(0.0, self.seen[-1].seen_at + quiet_s - now)


def gather(seen: Iterable[SeenUpdate], now: float, forward_wait_s: float = 0.0) -> Gathered:
    """Group updates into messages. `forward_wait_s` is the time that a forward waits for more of them."""
    groups: list[_Group] = []
    for one in seen:
        _place(groups, one, forward_wait_s)
    ready: list[tuple[Update, ...]] = []
    held: list[SeenUpdate] = []
    blocked: set[Address] = set()
    waits_s: list[float] = []
    for group in groups:
        if (wait_s := group.wait_s(now)) > 0 or group.place in blocked:
            waits_s += [wait_s] if wait_s > 0 else []
            held += group.seen
            if group.place is not None:
                blocked.add(group.place)
        else:
            ready.append(tuple(one.update for one in group.seen))
    return Gathered(tuple(ready), tuple(held), min(waits_s, default=0.0))


def message_of(update: Update) -> Message | None:
    return update.message or update.channel_post


def place_of(update: Update) -> Address | None:
    """Return the conversation whose order the update keeps. Presses and stops have none."""
    message = message_of(update) or update.edited_message or update.edited_channel_post
    return None if message is None else address_of(message)


def _place(groups: list[_Group], one: SeenUpdate, forward_wait_s: float) -> None:
    message = message_of(one.update)
    if message is not None:
        for group in reversed(groups):
            if group.accepts(message):
                group.add(one)
                return
        _close_for(groups, message)
    groups.append(_Group(one, forward_wait_s))


def _close_for(groups: Sequence[_Group], message: Message) -> None:
    """Close the sender's earlier groups: a new message ends them."""
    for group in groups:
        if group.is_by_sender_of(message):
            group.closed = True
