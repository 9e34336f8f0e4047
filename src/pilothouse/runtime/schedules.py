"""Schedules: due slots become inbox rows.

The row and the schedule's next time are written in one transaction, and the row's key names the slot, so each slot
runs once however often it is noticed.

Cron expressions are stepped by cronsim, with Debian's rules for hours that a clock skips or repeats: a job at a fixed
hour runs once every day, at the first instant after a skipped hour and in the first of two equal hours. A job that
repeats within the hour (`*/15`) keeps to real time.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import msgspec

from pilothouse.core.errors import ConfigError, Fenced, StoreError
from pilothouse.core.ids import IdMaker, MessageId, UserId
from pilothouse.core.message import Author, Content, InboundMessage
from pilothouse.core.schedule import Cron, CronSteps, Schedule, due
from pilothouse.core.store import Tx
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import INBOX, OUTBOX

if TYPE_CHECKING:
    from cronsim import CronSim

NAMED: dict[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

LOOK_EVERY_S = 1.0


def cron_steps(cron: Cron, after: float) -> float | None:
    """Return the first slot strictly after `after`, or None. Raises `ConfigError` for an invalid schedule."""
    zone = _zone(cron)
    try:
        start = datetime.fromtimestamp(after, UTC).astimezone(zone)
        # Inside a repeated hour cronsim first yields instants of the hour's first run, which are past.
        return next((at for slot in _steps(cron, start) if (at := slot.timestamp()) > after), None)
    except (OverflowError, ValueError):  # beyond the calendar
        return None


def _zone(cron: Cron) -> tzinfo:
    try:
        return ZoneInfo(cron.zone)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"unknown time zone {cron.zone!r}; use a name like Europe/Berlin, America/New_York or UTC"
        ) from error


def _steps(cron: Cron, start: datetime) -> CronSim:
    from cronsim import CronSim, CronSimError

    expression = NAMED.get(cron.expression.strip().lower(), cron.expression)
    if len(expression.split()) != 5:
        raise ConfigError(
            f"{cron.expression!r} is not a cron expression: it needs five fields (minute, hour, day of the month, "
            f"month, day of the week), like '0 9 * * 1-5', or one of {', '.join(NAMED)}"
        )
    try:
        return CronSim(expression, start)
    except (CronSimError, ValueError) as error:
        raise ConfigError(f"{cron.expression!r} is not a cron expression: {str(error).lower()}") from error


class Scheduler:
    def __init__(self, ports: Ports, cron: CronSteps = cron_steps) -> None:
        self._ports = ports
        self._cron = cron

    async def run(self) -> None:
        ports = self._ports
        while True:
            pause_s = LOOK_EVERY_S
            try:
                await self.enqueue_due()
                next_at = await ports.store.read(lambda tx: tx.schedules.next_at())
                if next_at is not None:
                    pause_s = min(LOOK_EVERY_S, max(0.02, next_at - ports.clock.now()))
            except Fenced:
                raise
            except StoreError as error:
                ports.log("schedules.postponed", level="warning", error=str(error))
            await ports.clock.sleep(pause_s)

    async def enqueue_due(self) -> None:
        ports, now = self._ports, self._ports.clock.now()
        if not await ports.store.read(lambda tx: tx.schedules.due(now)):
            return

        def unit(tx: Tx) -> None:
            for schedule in tx.schedules.due(now):
                try:
                    self._enqueue(tx, ports.ids, schedule, now)
                except ConfigError as error:
                    self._pause(tx, ports.ids, schedule, str(error), now)

        await ports.store.write(unit)
        ports.signals.poke(INBOX, OUTBOX)

    def _pause(self, tx: Tx, ids: IdMaker, schedule: Schedule, why: str, now: float) -> None:
        """Pause an invalid schedule and tell its conversation, so that it does not block the others."""
        tx.schedules.save(msgspec.structs.replace(schedule, paused=True))
        if tx.conversations.get(schedule.conversation_id) is None:
            return
        content = Content(f"The schedule {schedule.id} is paused: {why}", "notice", dated=True)
        say(tx, ids, schedule.conversation_id, content, key=f"paused:{schedule.id}:{now}", at=now)

    def _enqueue(self, tx: Tx, ids: IdMaker, schedule: Schedule, now: float) -> None:
        found = due(schedule, now, self._cron)
        tx.schedules.save(msgspec.structs.replace(schedule, next_at=found.next_at))
        conversation = tx.conversations.get(schedule.conversation_id)
        if conversation is None:
            return
        for slot in found.slots:
            key = f"schedule:{schedule.id}:{slot}"
            author = Author(UserId("pilothouse:schedule"), "schedule")
            message = InboundMessage(
                conversation.address,
                author,
                key,
                schedule.prompt,
                kind="task",
                source=schedule.id,
                sent_at=slot,
            )
            tx.inbox.put(
                id=MessageId(ids("msg")),
                key=key,
                lane=conversation.id,
                conversation_id=conversation.id,
                kind="task",
                body=msgspec.json.encode(message),
                at=now,
            )
