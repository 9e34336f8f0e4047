"""Open asks that nobody answered yet: shown in other places once nobody is at their own, once more before they expire, and
then expired, which is a "no".

Each reminder is a row of the outbox with a key of its own, so it is sent exactly once, also over restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import msgspec

from pilothouse.core.ask import AskRow
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.ids import ConversationId
from pilothouse.core.store import Tx
from pilothouse.core.text import long_span
from pilothouse.runtime.asks.settle import expire
from pilothouse.runtime.asks.show import REMINDER, places_of, route_ask, show_ask_in
from pilothouse.runtime.outbox import ask_key
from pilothouse.runtime.ports import ASKS, INBOX, OUTBOX, Ports, Signals, control_of

LOOK_EVERY_S = 5.0
IDLE_S = 30.0
EXPIRE_AT_ONCE = 200
REMIND_AT = 0.25
"""The part of its time that an ask has left when people are reminded."""
LEAST_S = 3600.0
"""An ask that waits for less than this has no reminder."""
STILL_WAITING = "Still waiting for an answer; {left} left.\n\n"


class Reminders:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def run(self) -> None:
        ports = self._ports
        while True:
            ticket, pause_s = ports.signals.ticket(ASKS), IDLE_S
            try:
                pause_s = LOOK_EVERY_S if await self.look() else IDLE_S
            except Fenced:
                raise
            except StoreError as error:
                ports.log("asks.reminders_postponed", level="warning", error=str(error))
            await Signals.wait(ticket, pause_s)

    async def look(self) -> bool:
        """Show again what is due; return whether any ask is open."""
        ports = self._ports
        now = ports.clock.now() - ports.jumped_s()
        due = await ports.store.read(lambda tx: [self._is_due(tx, row, now) for row in tx.asks.newest()])
        if any(due):
            await ports.store.write(lambda tx: self._show_due(tx, now))
            ports.signals.poke(OUTBOX)
        return bool(due)

    def _is_due(self, tx: Tx, row: AskRow, now: float) -> bool:
        return self._moved(tx, row, now) is not None or any(_unreminded(tx, row, now))

    def _show_due(self, tx: Tx, now: float) -> None:
        ports = self._ports
        for row in tx.asks.newest():
            if (moved := self._moved(tx, row, now)) is not None:
                tx.asks.show_in(row.ask.id, moved.shown_in)
                for place in moved.shown_in:
                    show_ask_in(tx, ports.ids, moved, place, now, occasion="asked")
            before = STILL_WAITING.format(left=long_span((row.ask.expires_at or now) - now))
            for place in list(_unreminded(tx, row, now)):
                show_ask_in(tx, ports.ids, row, place, now, occasion=REMINDER, before=before)

    def _moved(self, tx: Tx, row: AskRow, now: float) -> AskRow | None:
        """Return the ask with the places that it goes to now: nobody is at its own, and no other place shows it."""
        if row.shown_in or row.authority.approvers.route != "auto":
            return None
        people, served = self._ports.settings().people, self._ports.channels
        places, whose = route_ask(tx, people, row.authority, row.conversation_id, served, now)
        ask = msgspec.structs.replace(row.ask, whose=whose)
        return msgspec.structs.replace(row, ask=ask, shown_in=places) if places else None


def _unreminded(tx: Tx, row: AskRow, now: float) -> Iterator[ConversationId]:
    """Yield the places of an ask that is about to expire and that nobody was reminded of there."""
    expires_at = row.ask.expires_at
    if expires_at is None or expires_at <= now or expires_at - row.asked_at < LEAST_S:
        return
    if expires_at - now > REMIND_AT * (expires_at - row.asked_at):
        return
    for place in places_of(row):
        if tx.outbox.by_key(ask_key(row, REMINDER, place)) is None:
            yield place


class Expiry:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def run(self) -> None:
        """Expire asks until cancelled. An expired ask is a "no"."""
        ports = self._ports
        while True:
            ticket = ports.signals.ticket(ASKS)
            try:
                pause_s = await self.look()
            except Fenced:
                raise
            except StoreError as error:
                ports.log("asks.expiry_postponed", level="warning", error=str(error))
                pause_s = ports.settings().poll_s
            await Signals.wait(ticket, pause_s)

    async def look(self) -> float:
        """Expire what is due; return the pause to the next look. After a jump of the clock, wait until the times were shifted."""
        ports = self._ports
        at = await ports.store.read(lambda tx: tx.asks.next_expiry())
        left_s = inf if at is None else at - ports.clock.now()
        if left_s > 0:
            return left_s
        if ports.jumped_s():
            return ports.settings().poll_s
        await self._expire()
        return 0.05

    async def _expire(self) -> None:
        ports, now = self._ports, self._ports.clock.now()
        if not await ports.store.read(lambda tx: tx.asks.expired(now, limit=1)):
            return

        def unit(tx: Tx) -> set[ConversationId]:
            rows = tx.asks.expired(now, limit=EXPIRE_AT_ONCE)
            for row in rows:
                expire(tx, ports.ids, ports.topics, row, now)
            turns = [tx.turns.get(row.turn_id) for row in rows]
            return {turn.conversation_id for turn in turns if turn}

        wake = await ports.store.write(unit)
        ports.signals.poke(ASKS, INBOX, OUTBOX, *map(control_of, wake))
