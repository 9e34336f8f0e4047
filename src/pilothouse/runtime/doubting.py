"""What may stand there although no answer came: how long to wait before it is sent once more, and until when.

The pauses grow, and count in the store, so a restart forgets none. A platform that was not even heard since is not
tried blindly: that wait is in memory, bounded, and no more than a courtesy.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pilothouse.core.channel import Channel, HasHealth
from pilothouse.core.clock import Clock
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.runtime.settings import Settings, growing_s

MAX_SENDS = 40
"""With the pauses that grow to half an hour: most of a day, and longer where the channel is not heard. A change of what
stands there has as many tries."""
QUICK_SENDS = 3
"""So many a blink of the network takes at most. After them there is a word about it."""
OWN_FAULT_SENDS = 8
"""After so many, within minutes, it is given up if that word arrived: everything but this message does."""


def doubt_pause_s(settings: Settings, sends: int) -> float:
    return growing_s(settings.retry_first_s, settings.doubt_cap_s, sends)


class _Doubt(Struct, frozen=True):
    channel: ChannelId
    since: float
    until: float


class Doubts:
    """Which conversations wait until their channel is heard again. Times are of the clock that never jumps."""

    def __init__(self, clock: Clock, channels: Mapping[ChannelId, Channel]) -> None:
        self._clock = clock
        self._channels = {id: one for id, one in channels.items() if isinstance(one, HasHealth)}
        self._doubts: dict[ConversationId, _Doubt] = {}

    def add(self, place: ConversationId, channel: ChannelId, pause_s: float) -> None:
        """Something was sent there just now, and nobody said what became of it. Whoever cannot be heard, because nobody
        speaks, is tried after twice the pause all the same."""
        if channel in self._channels:
            now, before = self._clock.monotonic(), self._doubts.get(place)
            until = now + 2 * pause_s
            self._doubts[place] = _Doubt(channel, now, max(until, before.until) if before else until)

    def forget(self, place: ConversationId) -> None:
        self._doubts.pop(place, None)

    def unheard(self) -> tuple[ConversationId, ...]:
        return tuple(place for place, doubt in self._doubts.items() if self._is_unheard(doubt))

    def _is_unheard(self, doubt: _Doubt) -> bool:
        now, heard_at = self._clock.monotonic(), self._channels[doubt.channel].health().heard_at
        heard = heard_at is not None and now - (self._clock.now() - heard_at) > doubt.since
        return not heard and now < doubt.until
