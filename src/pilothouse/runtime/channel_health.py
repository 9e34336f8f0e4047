"""Watches the channels: stores the health of each, for `pilothouse status`, and alerts the owners.

A channel is in trouble if it failed, reports trouble itself, or was silent for too long. Owners are told in their
private chats on other channels, and told again when it runs and was heard from. A restart alone ends no trouble; the
first answer of the platform after it does.
"""

from __future__ import annotations

from functools import partial

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.channel import ChannelHealth, HasHealth
from pilothouse.core.clock import until_next
from pilothouse.core.errors import Fenced, PilothouseError, StoreError, main_error
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.message import Content
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.channel_status import SILENT_AFTER_S, HealthNote, health_of, note_health
from pilothouse.runtime.delivery.undelivered import resend_now
from pilothouse.runtime.outbox import alert_key, is_alert, is_unsent, say
from pilothouse.runtime.ports import OUTBOX, Ports
from pilothouse.runtime.roles import approver_chats

CHECK_EVERY_S = 5.0
NOTE_EVERY_S = 30.0
"""Limits how often the health of a working channel is stored."""
PAUSE_S = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Pauses before the first restart of a failed channel, the second, …; the last one repeats."""
SETTLED_S = 60.0
"""Time a channel must run after a failure to count as well: else one in a crash loop would recover each time."""
NEWS_EVERY_S = 600.0
"""Limits how often owners are told that one trouble became another."""
REASON_CHARS = 200

FAILED = "It failed ({why}) and restarts automatically within a minute. The log has the details."
ENDED = "it stopped by itself"
SILENT = f"Nothing was heard from it for more than {SILENT_AFTER_S / 60:.0f} minutes."


class _State(Struct):
    """State of one channel. `trouble` is why it failed, or its trouble before the last stop, until it is well again;
    `failures` counts the failures since it was last well; `is_old` marks a trouble of an earlier run of the gateway."""

    started_at: float
    runs: bool = False
    trouble: str = ""
    failures: int = 0
    is_old: bool = False


class ChannelMonitor:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._noted: dict[ChannelId, HealthNote] = {}
        now = ports.clock.monotonic()
        self._states = {id: _State(now) for id in ports.channels}
        # An isinstance check against a protocol is slow, and its result does not change.
        self._healths = {id: one for id, one in ports.channels.items() if isinstance(one, HasHealth)}
        self._any_failed = anyio.Event()

    def started(self, id: ChannelId) -> None:
        state = self._states[id]
        state.started_at, state.runs = self._ports.clock.monotonic(), True

    def failed(self, id: ChannelId, error: Exception | None) -> float:
        """Note that a channel failed, or ended without an error. Returns the pause before its restart."""
        self.health(id)  # resets the count of a channel that ran well until now
        state = self._states[id]
        pause_s = PAUSE_S[min(state.failures, len(PAUSE_S) - 1)]
        state.runs, state.failures = False, state.failures + 1
        state.is_old = False
        state.trouble = FAILED.format(why=ENDED if error is None else _reason(error))
        failed, self._any_failed = self._any_failed, anyio.Event()
        failed.set()
        return pause_s

    def health(self, id: ChannelId) -> ChannelHealth:
        state, clock = self._states[id], self._ports.clock
        own = self._healths[id].health() if id in self._healths else None
        run_s = clock.monotonic() - state.started_at
        quiet_s = 0.0 if own is None else run_s if own.heard_at is None else clock.now() - own.heard_at
        is_answered = own is not None and own.heard_at is not None and not own.trouble
        is_settled = run_s >= SETTLED_S or (state.is_old and is_answered)
        if state.runs and is_settled and quiet_s < run_s:
            state.trouble, state.failures, state.is_old = "", 0, False
        trouble = own.trouble if own is not None and state.runs else ""
        trouble = trouble or state.trouble or (SILENT if min(quiet_s, run_s) > SILENT_AFTER_S else "")
        return ChannelHealth(own.heard_at if own else None, trouble)

    async def run(self) -> None:
        """Check regularly. If no channel reports its health, wait for a failure first."""
        while self._states:
            failed = self._any_failed
            await self.check()
            if not self._healths and not any(state.trouble for state in self._states.values()):
                await failed.wait()
            else:
                await self._ports.clock.sleep(until_next(CHECK_EVERY_S, self._ports.clock.monotonic()))

    async def check(self) -> None:
        """Check every channel once; store and report what changed."""
        for id in self._states:
            if id not in self._noted:
                await self._load(id)
            await self._update(id, self.health(id))

    async def _load(self, id: ChannelId) -> None:
        """Load the stored health. Trouble from before the start lasts until the channel proves to be well: at the first
        answer of its platform, or once it has run for a while if it reports no health."""
        last = await self._ports.read(partial(health_of, channel=id))
        if last is not None:
            self._noted[id] = last
            state = self._states[id]
            state.is_old = not state.trouble
            state.trouble = state.trouble or last.trouble
        elif id not in self._healths:
            # Channels that report no health are stored only when they fail.
            self._noted[id] = HealthNote(self._ports.clock.now())

    async def _update(self, id: ChannelId, health: ChannelHealth) -> None:
        ports, now = self._ports, self._ports.clock.now()
        before = self._noted.get(id)
        if before is not None and _is_unchanged(before, health):
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
            self._noted[id] = after = await ports.store.write(unit)
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
        if is_over or after.told_at != (before.told_at if before else 0.0):
            ports.signals.poke(OUTBOX)

    def _tell(self, tx: Tx, id: ChannelId, last: HealthNote | None, noted: HealthNote) -> HealthNote:
        """Tell the owners what they do not know yet. Recovery is told at once, a change of trouble only now and then."""
        told, told_at = (last.told, last.told_at) if last else ("", 0.0)
        is_due = not noted.trouble or not told or abs(noted.at - told_at) >= NEWS_EVERY_S
        if noted.trouble != told and is_due and self._alert(tx, id, noted):
            told, told_at = noted.trouble, noted.at
        return replace(noted, told=told, told_at=told_at)

    def _alert(self, tx: Tx, id: ChannelId, noted: HealthNote) -> bool:
        """Write to the owners on other channels: on this one it might not arrive. False if there is no such place."""
        text = (
            f"The channel {id} is in trouble. {noted.trouble}"
            if noted.trouble
            else f"The channel {id} works again."
        )
        homes = approver_chats(tx, self._ports.settings().people, Authority(OWNERS))
        places = [place for place in tx.conversations.some(homes).values() if place.address.channel != id]
        for place in places:
            _withdraw_alerts(tx, id, place.id, noted.at)
            key = alert_key(id, noted.at, "trouble" if noted.trouble else "over", place.id)
            say(tx, self._ports.ids, place.id, Content(text, dated=True), key=key, at=noted.at)
        return bool(places)


def _withdraw_alerts(tx: Tx, id: ChannelId, place: ConversationId, at: float) -> None:
    """Withdraw unseen older alerts: else a closed terminal would later show weeks of them."""
    for row in tx.outbox.waiting(place):
        if is_alert(row, id) and is_unsent(tx, row):
            tx.outbox.withdraw(row.id, at, "a newer alert replaces it")


def _reason(error: BaseException) -> str:
    """Describe an error in one line, for people."""
    error = main_error(error)
    words = first_line(str(error), REASON_CHARS)
    return words if words and isinstance(error, PilothouseError) else f"{type(error).__name__}: {words}"


def _is_unchanged(noted: HealthNote, health: ChannelHealth) -> bool:
    return noted.trouble == health.trouble and (noted.heard_at is None) == (health.heard_at is None)
