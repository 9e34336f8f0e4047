"""Which updates are one message: the pictures of an album, the pieces of a long paste. Pure.

Telegram tells neither how many there are nor which was the last, so a group is complete when it was quiet for a
while, or when its sender goes on with something else. Within a conversation nothing overtakes: what comes behind a
group that may still grow waits with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pilothouse.channels.telegram.addressing import address_of, author_of
from pilothouse.channels.telegram.trigger import replied_to
from pilothouse.channels.telegram.wire import Message, Update
from pilothouse.channels.text import utf16_units
from pilothouse.core.message import Address

QUIET_S = 1.0
"""For how long a group must not grow before it is complete."""
SPLIT_LEAST = 2048
"""Telegram's apps cut a text that is too long between the half and the whole of 4096 units."""
SPLIT_GAP_S = 2
"""Pieces are sent at once; their times are whole seconds."""


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
    """Bits of one message so far; a lone one that cannot grow is a closed group."""

    def __init__(self, bit: Bit) -> None:
        self.bits = [bit]
        self.message = message_of(bit.update)
        self.open = self.message is not None and _may_grow(self.message)
        self.place = place_of(bit.update)

    def takes(self, message: Message) -> bool:
        last = message_of(self.bits[-1].update)
        return self.open and last is not None and (_same_album(last, message) or _continues(last, message))

    def wait_s(self, now: float) -> float:
        return max(0.0, self.bits[-1].seen_at + QUIET_S - now) if self.open else 0.0


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


def _place(groups: list[_Group], bit: Bit) -> None:
    message = message_of(bit.update)
    if message is not None:
        for group in reversed(groups):
            if group.takes(message):
                group.bits.append(bit)
                # A paste ends with its first short piece; an album may always grow.
                group.open = message.media_group_id is not None or _may_grow(message)
                return
        _close_for(groups, message)
    groups.append(_Group(bit))


def _close_for(groups: Sequence[_Group], message: Message) -> None:
    """Whoever goes on with something else has finished what they sent before."""
    author, place = author_of(message), address_of(message)
    for group in groups:
        if group.message is not None and group.place == place and author_of(group.message) == author:
            group.open = False


def _may_grow(message: Message) -> bool:
    return message.media_group_id is not None or (
        message.text is not None
        and message.forward_origin is None
        and not message.text.startswith("/")
        and utf16_units(message.text) >= SPLIT_LEAST
    )


def _same_album(last: Message, message: Message) -> bool:
    same = last.media_group_id is not None and last.media_group_id == message.media_group_id
    return same and last.chat.id == message.chat.id


def _continues(last: Message, message: Message) -> bool:
    return (
        last.media_group_id is None
        and message.text is not None
        and message.forward_origin is None
        and replied_to(message) is None
        and not message.text.startswith("/")
        and address_of(last) == address_of(message)
        and author_of(last) == author_of(message)
        and message.message_id > last.message_id
        and 0 <= message.date - last.date <= SPLIT_GAP_S
    )
