"""Pieces in a group that were not for us, until a later one says that all of it is: our name may stand at the end.

It is memory only: what is not for us is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.channels.telegram.joining import is_rest_of, message_of
from pilothouse.channels.telegram.pieces import waits
from pilothouse.channels.telegram.wire import Update
from pilothouse.core.message import Address

MOST = 100
MOST_PIECES = 30

Heard = tuple[Update, ...]


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
        if len(self._heard) > MOST:
            del self._heard[next(iter(self._heard))]

    def forget(self, place: Address) -> None:
        self._heard.pop(place, None)
