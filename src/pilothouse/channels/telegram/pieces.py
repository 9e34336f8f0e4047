"""Which message of Telegram's goes on with which: an album, a paste, forwards below their comment. Pure.

Telegram's apps cut a text of more than 4096 units, and say nothing of it. Desktop cuts in the second half, at the end of a
line, else of a sentence, else of a word; Android in the last 300 units, alike; iOS behind the last line's end or full stop.
Where there is none of these, all cut hard. What is white at a cut is dropped.

Which updates are one message: the pictures of an album, the pieces of a paste, forwards and their comment. Pure.

Telegram tells neither how many there are nor which was the last, so a group is complete when it was quiet for a
while, or when its sender goes on with something else. Within a conversation nothing overtakes: what comes behind a
group that may still grow waits with it.

Pieces in a group that were not for us, until a later one says that all of it is: our name may stand at the end.

It is memory only: what is not for us is not kept.

What people said last in each place, as far as the rest of it may come. The desk keeps it; here it is remembered.

Nobody else takes messages in these places, so that the desk is asked once for each person and place.
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
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, InboundMessage

SPLIT_LEAST = TEXT // 2
"""No app cuts earlier, but for an odd text on iOS."""
SPLIT_GAP_S = 5
"""Pieces are sent at once; a slow phone needs a while. Their times are whole seconds."""
FORWARD_GAP_S = 2
DROPPED_MOST = 64
"""How much white an app may have dropped between two pieces: blank lines, the indentation of the next."""
LOOKED_BACK = 300


_encode = msgspec.json.Encoder().encode

QUIET_S = 1.0
"""For how long a group must not grow before it is complete. What comes later is known as the rest of it (`find_tail`)."""

MOST_OVERHEARD = 100
MOST_PIECES = 30

Heard = tuple[Update, ...]

MOST_TAILS = 1000
REMEMBERED = 4

Who = tuple[Address, UserId]


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


class Bit(Struct, frozen=True):
    """An update, and when we first saw it, by a clock that never jumps."""

    update: Update
    seen_at: float


class Gathered(Struct, frozen=True):
    """`ready` in the order in which it came; `held` may still grow, or waits behind what may, until `wait_s`."""

    ready: tuple[tuple[Update, ...], ...]
    held: tuple[Bit, ...]
    wait_s: float = 0.0


class _Group:
    """Bits of one message so far."""

    def __init__(self, bit: Bit) -> None:
        self.bits: list[Bit] = []
        self.place = place_of(bit.update)
        self.closed = False
        self.add(bit)

    def add(self, bit: Bit) -> None:
        self.bits.append(bit)
        self.last = message_of(bit.update)
        self._tail = None if self.last is None else tail_of(self.last)
        # A paste ends with its first short piece; an album may always grow.
        self._waits = self.last is not None and waits(self.last)

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
        return max(0.0, self.bits[-1].seen_at + QUIET_S - now) if self._waits and not self.closed else 0.0


def gather(bits: Iterable[Bit], now: float) -> Gathered:
    groups: list[_Group] = []
    for bit in bits:
        _place(groups, bit)
    ready: list[tuple[Update, ...]] = []
    held: list[Bit] = []
    stuck: set[Address] = set()
    wait_s = 0.0
    for group in groups:
        if group.wait_s(now) > 0 or group.place in stuck:
            wait_s = max(wait_s, group.wait_s(now))
            held += group.bits
            if group.place is not None:
                stuck.add(group.place)
        else:
            ready.append(tuple(bit.update for bit in group.bits))
    return Gathered(tuple(ready), tuple(held), wait_s)


def message_of(update: Update) -> Message | None:
    return update.message or update.channel_post


def place_of(update: Update) -> Address | None:
    """Where order matters. A press or a stop waits for nobody."""
    message = message_of(update) or update.edited_message or update.edited_channel_post
    return None if message is None else address_of(message)


def is_rest_of(updates: Sequence[Update], earlier: Sequence[Update]) -> bool:
    """Whether they would have been one group if they had come in time."""
    message, last = message_of(updates[0]), message_of(earlier[-1])
    tail = None if last is None else tail_of(last)
    if message is None or last is None or tail is None:
        return False
    return is_by_the_same(last, message) and goes_on(tail, message)


def _place(groups: list[_Group], bit: Bit) -> None:
    message = message_of(bit.update)
    if message is not None:
        for group in reversed(groups):
            if group.takes(message):
                group.add(bit)
                return
        _close_for(groups, message)
    groups.append(_Group(bit))


def _close_for(groups: Sequence[_Group], message: Message) -> None:
    """Whoever goes on with something else has finished what they sent before."""
    for group in groups:
        if group.is_by_sender_of(message):
            group.closed = True


class Overheard:
    def __init__(self) -> None:
        self._heard: dict[Address, Heard] = {}

    def with_earlier(self, updates: Sequence[Update], place: Address) -> Heard:
        """All that was heard of it, if this goes on with what was said last there."""
        earlier = self._heard.get(place, ())
        return (*earlier, *updates) if earlier and is_rest_of(updates, earlier) else tuple(updates)

    def keep(self, updates: Heard, place: Address) -> None:
        last = message_of(updates[-1])
        if last is None or not waits(last) or len(updates) > MOST_PIECES:
            return
        self._heard.pop(place, None)
        self._heard[place] = updates
        if len(self._heard) > MOST_OVERHEARD:
            del self._heard[next(iter(self._heard))]

    def forget(self, place: Address) -> None:
        self._heard.pop(place, None)


class Tails:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._known: dict[Who, Sequence[Tail]] = {}

    async def before(self, update: Update) -> Sequence[Tail]:
        """Of what its sender said in that place, the newest first: this may be the rest of one."""
        message = message_of(update)
        author = None if message is None else author_of(message)
        if message is None or author is None or author.is_bot:
            return ()
        who = (address_of(message), author.id)
        if who not in self._known:
            tails = read_tails(await self._desk.growing(who[0], author))
            if len(self._known) >= MOST_TAILS:
                del self._known[next(iter(self._known))]
            self._known[who] = tails
        return self._known[who]

    def taken(self, message: InboundMessage, receipt: Receipt) -> None:
        who = (message.address, message.author.id)
        if receipt.state == "duplicate":  # what the desk has of it may be more than we saw
            self._known.pop(who, None)
        elif receipt.state == "queued" and message.growth and who in self._known:
            others = (tail for tail in self._known[who] if str(tail.message_id) != message.rest_of)
            self._known[who] = [*read_tails([message.growth]), *others][:REMEMBERED]
