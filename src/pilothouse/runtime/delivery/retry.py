"""What may stand there although no answer came: how long to wait before it is sent once more, and until when.

The pauses grow, and count in the store, so a restart forgets none. A platform that was not even heard since is not
tried blindly: that wait is in memory, bounded, and no more than a courtesy.

What got through tells that a storm may be over: what waits in doubt behind long pauses is tried again soon.

A storm may also have let just that one pass, or one place may be broken in a channel that works. So each message that got
through wakes only two others, those first that were woken least; if they arrive they wake more. What fails after it was
woken waits: ever longer, and never longer than it would have. All of this is a hint: the pauses in the store are the guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from pilothouse.core.channel import Channel, HasHealth, HoldsPlaces
from pilothouse.core.clock import Clock
from pilothouse.core.ids import ChannelId, ConversationId, MessageId
from pilothouse.core.queue import CHANGES, NEVER, QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.delivery.undelivered import word_about
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings, growing_s

MAX_SENDS = 40
"""With the pauses that grow to half an hour: most of a day, and longer where the channel is not heard. A change of what
stands there has as many tries."""
QUICK_SENDS = 3
"""So many a blink of the network takes at most. After them there is a word about it."""
OWN_FAULT_SENDS = 8
"""After so many, within minutes, it is given up if that word arrived: everything but this message does."""

EACH_WAKES = 2
FIRST = ("answer", "ask")
MOST = 500
"""So many places are looked at, those that wait longest."""


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


class Calming:
    def __init__(self, ports: Ports, doubts: Doubts) -> None:
        self._ports = ports
        self._doubts = doubts
        self._wakes: dict[MessageId, int] = {}
        # Of a channel that holds some places only, the rest is another's.
        self._ours = {id for id, one in ports.channels.items() if not isinstance(one, HoldsPlaces)}
        # Whatever a process before us left.
        ports.in_doubt |= self._ours

    def doubted(self, channel: ChannelId) -> None:
        self._ports.in_doubt |= self._ours & {channel}

    def settled(self, id: MessageId) -> None:
        """It was delivered, or was given up."""
        self._wakes.pop(id, None)

    async def wake(self, skip: Sequence[ConversationId]) -> None:
        """Looks where something got through since. What is being sent just now, in `skip`, is left alone."""
        through, self._ports.got_through = self._ports.got_through, set()
        for channel in through:
            # What comes into doubt while we look says so itself.
            self._ports.in_doubt.discard(channel)
            rows: Sequence[QueueRow] | None = None
            try:
                rows = await self._ports.store.read(lambda tx, channel=channel: _doubted(tx, channel, skip))
            finally:
                if rows is None or rows:
                    self._ports.in_doubt.add(channel)
            await self._wake_some(rows)
        if through and self._wakes:
            await self._forget_withdrawn()

    async def _forget_withdrawn(self) -> None:
        """What was woken and then taken back is told to nobody here."""
        woken = tuple(self._wakes)
        ended = await self._ports.store.read(lambda tx: [id for id in woken if not _waits(tx, id)])
        for id in ended:
            self.settled(id)

    async def _wake_some(self, rows: Sequence[QueueRow]) -> None:
        """What somebody waits for goes before everything else."""
        now, unheard = self._ports.clock.now(), self._doubts.unheard()
        due = {row.id: now + self._pause_s(row) for row in rows}
        late = [row for row in rows if row.ready_at > due[row.id] or row.conversation_id in unheard]
        late.sort(key=lambda row: (self._wakes.get(row.id, 0), row.kind not in FIRST, row.seq))
        if not (chosen := late[:EACH_WAKES]):
            return

        def unit(tx: Tx) -> None:
            for row in chosen:
                tx.outbox.rewrite(row.id, bytes(row.body), ready_at=min(row.ready_at, due[row.id]))

        await self._ports.store.write(unit)
        for row in chosen:
            self._wakes[row.id] = self._wakes.get(row.id, 0) + 1
            self._doubts.forget(row.conversation_id)
            self._ports.log(
                "message.woken", message_id=row.id, turn_id=row.turn_id, wakes=self._wakes[row.id]
            )

    def _pause_s(self, row: QueueRow) -> float:
        """None at first. Each grows by four: of the tries that a message has, wakes take only a few."""
        settings, wakes = self._ports.settings(), self._wakes.get(row.id, 0)
        return growing_s(settings.retry_first_s, settings.doubt_cap_s, 2 * wakes) if wakes else 0.0


def _doubted(tx: Tx, channel: ChannelId, skip: Sequence[ConversationId]) -> list[QueueRow]:
    """The first message of each place, if it may stand there. Where the word about one arrived, the storm is not what keeps
    it: it waits out its own pauses, for after a few more tries it is given up."""
    heads = tx.outbox.deliverable(NEVER, channels=[channel], skip=skip, limit=MOST)
    return [row for head in heads if (row := _first_said(tx, head)) is not None and _is_in_doubt(tx, row)]


def _waits(tx: Tx, id: MessageId) -> bool:
    row = tx.outbox.get(id)
    return row is not None and row.ended_at is None


def _first_said(tx: Tx, head: QueueRow) -> QueueRow | None:
    """A change that waits hides no message behind it."""
    if head.kind not in CHANGES:
        return head
    return next((row for row in tx.outbox.unfinished(head.conversation_id) if row.kind not in CHANGES), None)


def _is_in_doubt(tx: Tx, row: QueueRow) -> bool:
    part = next((part for part in tx.outbox.parts(row.id) if part.state != "sent"), None)
    if part is None or part.state != "sending" or part.sends < QUICK_SENDS:
        return False
    word = word_about(tx, row)
    return word is None or word.status != "done"
