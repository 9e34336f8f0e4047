"""Which message of Telegram's goes on with which: an album, a paste, forwards below their comment. Pure.

Telegram's apps cut a text of more than 4096 units, and say nothing of it. Desktop cuts in the second half, at the end of a
line, else of a sentence, else of a word; Android in the last 300 units, alike; iOS behind the last line's end or full stop.
Where there is none of these, all cut hard. What is white at a cut is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from pilothouse.channels.telegram.addressing import address_of, author_of
from pilothouse.channels.telegram.limits import TEXT
from pilothouse.channels.telegram.trigger import replied_to
from pilothouse.channels.telegram.typed import BLOCKS
from pilothouse.channels.telegram.wire import Entity, Message
from pilothouse.channels.text import utf16_units

SPLIT_LEAST = TEXT // 2
"""No app cuts earlier, but for an odd text on iOS."""
SPLIT_GAP_S = 5
"""Pieces are sent at once; a slow phone needs a while. Their times are whole seconds."""
FORWARD_GAP_S = 2
DROPPED_MOST = 64
"""How much white an app may have dropped between two pieces: blank lines, the indentation of the next."""
LOOKED_BACK = 300


class Tail(Struct, frozen=True, omit_defaults=True):
    """What must be known of a message to tell the next piece: it is kept while that may come."""

    message_id: int
    date: int
    album: str | None = None
    units: int = 0
    """The length of a text that may have been cut; 0 if it was not."""
    reply: int | None = None
    solid: bool = False
    """It was cut hard, most likely in the middle of a word."""
    lines: bool = False
    """An app that looks for the end of a line had found one."""
    stop: bool = False
    """It ends with a full stop."""
    block: bool = False
    """It ends within code, or a quotation: its last line is a mark."""
    before_forwards: bool = False
    """Forwards may belong to it: it is a comment, or a forward."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Tail).decode


def tail_of(message: Message) -> Tail | None:
    """None if nothing can go on with it."""
    text, forward = message.text or "", message.forward_origin is not None
    tail = Tail(message.message_id, message.date, message.media_group_id)
    if text and not forward:
        answered = replied_to(message)
        tail = msgspec.structs.replace(
            tail,
            units=utf16_units(text) if utf16_units(text) >= SPLIT_LEAST else 0,
            reply=None if answered is None else answered.message_id,
            solid=_was_cut_hard(text),
            lines="\n" in _second_half(text),
            stop=text.endswith("."),
            block=any(one.offset + one.length == utf16_units(text) for one in _blocks(message)),
        )
    comment = bool(text) and not text.startswith("/")
    tail = msgspec.structs.replace(tail, before_forwards=forward or comment)
    return tail if tail.album or tail.units or tail.before_forwards else None


def waits(message: Message) -> bool:
    """Whether the next piece is likely enough to wait for it: an album may always grow, and so may a text that is long."""
    tail = tail_of(message)
    return tail is not None and (tail.album is not None or tail.units > 0)


def goes_on(tail: Tail, message: Message) -> bool:
    """Whether a message of the same sender in the same place is the next piece."""
    if _same_album(tail, message):
        return True
    gap_s = message.date - tail.date
    if message.message_id <= tail.message_id or gap_s < 0:
        return False
    if message.forward_origin is not None:
        return tail.before_forwards and gap_s <= FORWARD_GAP_S
    return (
        message.media_group_id is None
        and tail.album is None
        and gap_s <= SPLIT_GAP_S
        and _was_cut(tail, message)
    )


def find_tail(tails: Sequence[Tail], message: Message) -> Tail | None:
    """`tails` are of what one person said in one place, the newest first: only an album goes on after something else."""
    albums = (tail for tail in tails if _same_album(tail, message))
    newest = (tail for tail in tails[:1] if goes_on(tail, message))
    return next(albums, None) or next(newest, None)


def is_by_the_same(one: Message, other: Message) -> bool:
    return address_of(one) == address_of(other) and author_of(one) == author_of(other)


def seam(tail: Tail, message: Message) -> str:
    """What stood between two pieces, as far as that can be known: where in doubt, white, for a word in two is worse."""
    text = message.text or ""
    if not tail.units or not text or message.forward_origin is not None:
        return "\n"
    if tail.block or any(one.offset == 0 for one in _blocks(message)):
        return "\n"
    if tail.solid or (tail.stop and (text[0].islower() or text[0].isdigit())):
        return ""
    next_word = utf16_units(text.split(maxsplit=1)[0]) if text.split() else 0
    return "\n" if tail.lines or tail.units + 1 + next_word <= TEXT else " "


def write_tail(tail: Tail) -> str:
    return _encode(tail).decode()


def read_tails(kept: Sequence[str]) -> list[Tail]:
    """What another version wrote, and we cannot read, is forgotten."""
    tails: list[Tail] = []
    for one in kept:
        try:
            tails.append(_decode(one))
        except msgspec.MsgspecError:
            continue
    return tails


def _blocks(message: Message) -> Iterator[Entity]:
    return (one for one in message.entities if one.type in BLOCKS)


def _same_album(tail: Tail, message: Message) -> bool:
    return tail.album is not None and tail.album == message.media_group_id


def _was_cut(tail: Tail, message: Message) -> bool:
    """Two texts that would have fitted into one message are two messages."""
    answered = replied_to(message)
    return (
        message.text is not None
        and tail.units > 0
        and tail.units + utf16_units(message.text) > TEXT - DROPPED_MOST
        and (answered is None or answered.message_id == tail.reply)
    )


def _was_cut_hard(text: str) -> bool:
    """There is no room left in it, and nothing at which an app would have cut: Android looks back the least, and iOS
    knows neither spaces nor tabs."""
    full = utf16_units(text) >= TEXT - 1
    return full and not (any(map(str.isspace, text[-LOOKED_BACK:])) and ("\n" in text or "." in text))


def _second_half(text: str) -> str:
    data = text.encode("utf-16-le", "surrogatepass")
    return data[SPLIT_LEAST * 2 :].decode("utf-16-le", "replace")
