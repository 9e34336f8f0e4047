"""Which message of Telegram's goes on with which: an album, a paste, forwards below their comment. Pure.

Telegram's apps cut a text of more than 4096 units, and say nothing of it. Desktop cuts in the second half, at the end of a
line, else of a sentence, else of a word; Android in the last 300 units, alike; iOS behind the last line's end or full stop.
Where there is none of these, all cut hard. What is white at a cut is dropped.

Which updates are one message: the pictures of an album, the pieces of a paste, forwards and their comment. Pure.

Telegram tells neither how many there are nor which was the last, so a group is complete when it was quiet for a
while, or when its sender goes on with something else. A piece that comes later is a message of its own. Within a
conversation nothing overtakes: what comes behind a group that may still grow waits with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from pilothouse.channels.telegram.addresses import address_of, author_of, replied_to
from pilothouse.channels.telegram.payload import TEXT
from pilothouse.channels.telegram.wire import Entity, Message, Update
from pilothouse.channels.telegram.written import BLOCKS
from pilothouse.channels.text import utf16_units
from pilothouse.core.message import Address

SPLIT_LEAST = TEXT // 2
"""No app cuts earlier, but for an odd text on iOS."""
SPLIT_GAP_S = 5
"""Pieces are sent at once; a slow phone needs a while. Their times are whole seconds."""
FORWARD_GAP_S = 2
DROPPED_MOST = 64
"""How much white an app may have dropped between two pieces: blank lines, the indentation of the next."""
LOOKED_BACK = 300

QUIET_S = 1.0
"""An album or a cut text is complete when it did not grow for this long. A short text waits for forwards, less long."""


class Tail(Struct, frozen=True):
    """The facts about a message by which its next piece is recognised."""

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


def may_be_cut(tail: Tail) -> bool:
    """An album may always grow, and a long text was probably cut: the next piece is likely."""
    return tail.album is not None or tail.units > 0


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


class Bit(Struct, frozen=True):
    """An update, and when we first saw it, by a clock that never jumps."""

    update: Update
    seen_at: float


class Gathered(Struct, frozen=True):
    """`ready` in the order in which it came; `held` may still grow, or waits behind a group that may:
    the first is complete in `wait_s`."""

    ready: tuple[tuple[Update, ...], ...]
    held: tuple[Bit, ...]
    wait_s: float = 0.0


class _Group:
    """Bits of one message so far."""

    def __init__(self, bit: Bit, forward_wait_s: float) -> None:
        self._forward_wait_s = forward_wait_s
        self.bits: list[Bit] = []
        self.place = place_of(bit.update)
        self.closed = False
        self.add(bit)

    def add(self, bit: Bit) -> None:
        self.bits.append(bit)
        self.last = message_of(bit.update)
        self._tail = None if self.last is None else tail_of(self.last)

    def is_by_sender_of(self, message: Message) -> bool:
        return self.last is not None and is_by_the_same(self.last, message)

    def takes(self, message: Message) -> bool:
        return (
            not self.closed
            and self._tail is not None
            and self.is_by_sender_of(message)
            and goes_on(self._tail, message)
        )

    def wait_s(self, now: float) -> float:
        if self._tail is None or self.closed:
            return 0.0
        quiet_s = QUIET_S if may_be_cut(self._tail) else self._forward_wait_s
        return max(0.0, self.bits[-1].seen_at + quiet_s - now)


def gather(bits: Iterable[Bit], now: float, forward_wait_s: float = 0.0) -> Gathered:
    """`forward_wait_s` is how long a text waits for forwards that may follow it."""
    groups: list[_Group] = []
    for bit in bits:
        _place(groups, bit, forward_wait_s)
    ready: list[tuple[Update, ...]] = []
    held: list[Bit] = []
    stuck: set[Address] = set()
    waits_s: list[float] = []
    for group in groups:
        if (wait_s := group.wait_s(now)) > 0 or group.place in stuck:
            waits_s += [wait_s] if wait_s > 0 else []
            held += group.bits
            if group.place is not None:
                stuck.add(group.place)
        else:
            ready.append(tuple(bit.update for bit in group.bits))
    return Gathered(tuple(ready), tuple(held), min(waits_s, default=0.0))


def message_of(update: Update) -> Message | None:
    return update.message or update.channel_post


def place_of(update: Update) -> Address | None:
    """Where order matters. A press or a stop waits for nobody."""
    message = message_of(update) or update.edited_message or update.edited_channel_post
    return None if message is None else address_of(message)


def _place(groups: list[_Group], bit: Bit, forward_wait_s: float) -> None:
    message = message_of(bit.update)
    if message is not None:
        for group in reversed(groups):
            if group.takes(message):
                group.add(bit)
                return
        _close_for(groups, message)
    groups.append(_Group(bit, forward_wait_s))


def _close_for(groups: Sequence[_Group], message: Message) -> None:
    """Whoever goes on with something else has finished what they sent before."""
    for group in groups:
        if group.is_by_sender_of(message):
            group.closed = True
