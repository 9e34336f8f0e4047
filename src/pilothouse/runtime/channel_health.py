"""Looks after the channels: how each one is goes into the store, where `pilothouse status` finds it.

One that broke, that says so itself, or of which nothing was heard for long is in trouble. That is told to the owners, in
their private chats on other channels; so is the end of it: it runs, and was heard again. A restart ends no trouble.
"""

from __future__ import annotations

from functools import partial

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.channel import ChannelHealth, HasHealth
from pilothouse.core.channel_status import SILENT_AFTER_S, HealthNote, health_of, note_health
from pilothouse.core.errors import Fenced, PilothouseError, StoreError, main_error
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.message import Content
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.delivery.retry import resend_now
from pilothouse.runtime.outbox import is_unsent, say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.roles import approver_chats
from pilothouse.runtime.signals import OUTBOX

LOOK_EVERY_S = 5.0
NOTE_EVERY_S = 30.0
"""A channel that is well is written down no more often than this."""
PAUSE_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Before a channel that broke is started again, the first time, the second, …"""
SETTLED_S = 60.0
"""Whoever broke must run for so long to be well: else one that breaks for ever would work again each time."""
NEWS_EVERY_S = 600.0
"""A trouble that turns into another one is told of no more often than this."""
REASON_CHARS = 200

BROKE = (
    "It broke ({why}) and is started again by itself, at the latest after a minute. The log has the details."
)
ENDED = "it stopped by itself"
DEAF = f"Nothing was heard from it for more than {SILENT_AFTER_S / 60:.0f} minutes."


class _Life(Struct):
    """Of one channel. `broke` is why it broke, or the trouble in which it was when the house was last stopped, until it
    is well again; `falls` is how often it broke meanwhile."""

    began_at: float
    runs: bool = False
    broke: str = ""
    falls: int = 0


class Tending:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._noted: dict[ChannelId, HealthNote] = {}
        now = ports.clock.monotonic()
        self._lives = {id: _Life(now) for id in ports.channels}
        # Asking a channel what it can do is slow, and it does not change.
        self._healths = {id: one for id, one in ports.channels.items() if isinstance(one, HasHealth)}
        self._fell = anyio.Event()

    # Told by whoever runs the channels.

    def began(self, id: ChannelId) -> None:
        life = self._lives[id]
        life.began_at, life.runs = self._ports.clock.monotonic(), True

    def broke(self, id: ChannelId, error: Exception | None) -> float:
        """How long to wait before it is started again: ever more patiently. It may have ended without an error, too."""
        self.health(id)  # one that ran well until now begins anew
        life = self._lives[id]
        pause_s = PAUSE_S[min(life.falls, len(PAUSE_S) - 1)]
        life.runs, life.falls = False, life.falls + 1
        life.broke = BROKE.format(why=ENDED if error is None else _reason(error))
        fell, self._fell = self._fell, anyio.Event()
        fell.set()
        return pause_s

    # What is known of it.

    def health(self, id: ChannelId) -> ChannelHealth:
        life, clock = self._lives[id], self._ports.clock
        own = self._healths[id].health() if id in self._healths else None
        run_s = clock.monotonic() - life.began_at
        quiet_s = 0.0 if own is None else run_s if own.heard_at is None else clock.now() - own.heard_at
        if life.runs and run_s >= SETTLED_S and quiet_s < run_s:
            life.broke, life.falls = "", 0
        trouble = own.trouble if own is not None and life.runs else ""
        trouble = trouble or life.broke or (DEAF if min(quiet_s, run_s) > SILENT_AFTER_S else "")
        return ChannelHealth(own.heard_at if own else None, trouble)

    async def run(self) -> None:
        """Where no channel can say how it is, there is something to look at only once one broke."""
        while self._lives:
            fell = self._fell
            await self.look()
            if not self._healths and not any(life.broke for life in self._lives.values()):
                await fell.wait()
            else:
                await self._ports.clock.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """At all of them, once; what is news is written down, and told."""
        for id in self._lives:
            if id not in self._noted:
                await self._take_up(id)
            await self._look_after(id, self.health(id))

    async def _take_up(self, id: ChannelId) -> None:
        """What was noted before the start. That nothing is wrong yet does not mean that what was wrong is over."""
        last = await self._ports.read(partial(health_of, channel=id))
        if last is not None:
            self._noted[id] = last
            self._lives[id].broke = self._lives[id].broke or last.trouble
        elif id not in self._healths:
            # Of these only their falls are noted: most have none, and are never written down.
            self._noted[id] = HealthNote(self._ports.clock.now())

    async def _look_after(self, id: ChannelId, health: ChannelHealth) -> None:
        ports, now = self._ports, self._ports.clock.now()
        before = self._noted.get(id)
        if before is not None and _is_old_news(before, health):
            is_open = id in self._healths or health.trouble != before.told
            if not is_open or now - before.at < NOTE_EVERY_S:
                return
        noted = HealthNote(now, health.heard_at, health.trouble)
        trouble = before.trouble if before else ""
        is_over = bool(trouble) and not noted.trouble

        def unit(tx: Tx) -> HealthNote:
            told = self._tell(tx, id, health_of(tx, id), noted)
            note_health(tx, id, told if id in self._healths or noted.trouble else None)
            if is_over:
                resend_now(tx, id, now)
            return told

        try:
            self._noted[id] = await ports.store.write(unit)
        except Fenced:
            raise
        except StoreError as error:
            ports.log("channel.health_postponed", level="warning", error=str(error))
            return
        if trouble != noted.trouble:
            event, level = (
                ("channel.in_trouble", "error") if noted.trouble else ("channel.well_again", "info")
            )
            ports.log(event, level=level, channel=id, text=noted.trouble)
        ports.signals.poke(OUTBOX)

    def _tell(self, tx: Tx, id: ChannelId, last: HealthNote | None, noted: HealthNote) -> HealthNote:
        """The note, with what the owners know now. Its end is told at once; that it changed, only now and then."""
        told, told_at = (last.told, last.told_at) if last else ("", 0.0)
        is_due = not noted.trouble or not told or abs(noted.at - told_at) >= NEWS_EVERY_S
        if noted.trouble != told and is_due and self._alert(tx, id, noted):
            told, told_at = noted.trouble, noted.at
        return replace(noted, told=told, told_at=told_at)

    def _alert(self, tx: Tx, id: ChannelId, noted: HealthNote) -> bool:
        """Wherever else an owner was heard: on the channel itself it might never arrive. False if there is no such place."""
        text = (
            f"The channel {id} is in trouble. {noted.trouble}"
            if noted.trouble
            else f"The channel {id} works again."
        )
        homes = approver_chats(tx, self._ports.settings().people, Authority(OWNERS))
        places = [place for place in tx.conversations.some(homes).values() if place.address.channel != id]
        for place in places:
            _take_back_alerts(tx, id, place.id, noted.at)
            key = f"{_alerts(id)}{noted.at}:{'trouble' if noted.trouble else 'over'}:{place.id}"
            say(tx, self._ports.ids, place.id, Content(text, dated=True), key=key, at=noted.at)
        return bool(places)


def _alerts(id: ChannelId) -> str:
    return f"alert:{id}:"


def _take_back_alerts(tx: Tx, id: ChannelId, place: ConversationId, at: float) -> None:
    """What was told of a channel and nobody saw is no news any more: a closed terminal would show weeks of it."""
    for row in tx.outbox.waiting(place):
        if row.key.startswith(_alerts(id)) and is_unsent(tx, row):
            tx.outbox.withdraw(row.id, at, "there is newer news")


def _reason(error: BaseException) -> str:
    """For a person, without a traceback."""
    error = main_error(error)
    words = first_line(str(error), REASON_CHARS)
    return words if words and isinstance(error, PilothouseError) else f"{type(error).__name__}: {words}"


def _is_old_news(noted: HealthNote, health: ChannelHealth) -> bool:
    return noted.trouble == health.trouble and (noted.heard_at is None) == (health.heard_at is None)
