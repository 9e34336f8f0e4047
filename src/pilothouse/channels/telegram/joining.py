"""Which updates are one message: the pictures of an album, the pieces of a paste, forwards and their comment. Pure.

Telegram tells neither how many there are nor which was the last, so a group is complete when it was quiet for a
while, or when its sender goes on with something else. Within a conversation nothing overtakes: what comes behind a
group that may still grow waits with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from pilothouse.channels.telegram.addressing import address_of
from pilothouse.channels.telegram.pieces import goes_on, is_by_the_same, tail_of, waits
from pilothouse.channels.telegram.wire import Message, Update
from pilothouse.core.message import Address

QUIET_S = 1.0
"""For how long a group must not grow before it is complete. What comes later is known as the rest of it (`find_tail`)."""


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
