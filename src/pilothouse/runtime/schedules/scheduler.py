"""The scheduler: one task that sleeps until the next slot, and wakes when a schedule changes or a turn ends.

Slots are planned outside of the transaction that claims them, so that a long absence blocks no other writer. At most
half of the gateway's places work for schedules, so a chat never waits behind them. Runs that wait for a person, or for
a vendor, need no place.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from pilothouse.core.errors import ConfigError, Fenced, StoreError
from pilothouse.core.ids import ScheduleId
from pilothouse.core.schedule import Run, Schedule
from pilothouse.core.store import Tx
from pilothouse.runtime.ports import ASKS, INBOX, OUTBOX, SCHEDULES, Ports, Signals
from pilothouse.runtime.schedules.runs import (
    claim,
    ended_runs,
    pause_broken,
    script_ended,
    settle_ended,
    workspace_for,
)
from pilothouse.runtime.schedules.script import ScriptResult, run_script
from pilothouse.runtime.schedules.slots import plan

AT_ONCE = 50
"""Due schedules that one round reads."""
SCRIPTS_AT_ONCE = 4
SCRIPT_TRIES = 2
"""A script that was running when the gateway was killed is started once more."""
GAVE_UP = ScriptResult(error="the gateway stopped twice while it ran")


class Scheduler:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._scripts: set[tuple[ScheduleId, float]] = set()
        """Runs whose script runs in this process."""

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                ticket = self._ports.signals.ticket(SCHEDULES)
                await Signals.wait(ticket, await self._round(tasks))

    async def _round(self, tasks: TaskGroup) -> float:
        """Do what is to be done now; return how long to sleep."""
        ports = self._ports
        try:
            is_idle, next_at = await ports.store.read(self._look)
            if not is_idle:
                await self.settle()
                await self.enqueue_due()
                await self.start_scripts(tasks)
                next_at = await ports.store.read(lambda tx: tx.schedules.next_at())
        except Fenced:
            raise
        except StoreError as error:
            ports.log("schedules.postponed", level="warning", error=str(error))
            return ports.settings().poll_s
        if next_at is None:
            return inf
        wait_s = next_at - ports.clock.now()
        return max(0.02, wait_s) if wait_s > 0 else ports.settings().poll_s  # due, but no place is free

    def _look(self, tx: Tx) -> tuple[bool, float | None]:
        """Return whether no run is open and no slot is due, as nearly always, and the time of the next slot."""
        next_at = tx.schedules.next_at()
        is_due = next_at is not None and next_at <= self._ports.clock.now()
        return not is_due and not tx.schedules.open_runs(), next_at

    async def settle(self) -> None:
        """Write down what became of the runs that ended."""
        ports = self._ports
        if await ports.store.read(ended_runs):
            now = ports.clock.now()
            await ports.store.write(lambda tx: settle_ended(tx, ports.ids, ports.settings(), now))
            ports.signals.poke(OUTBOX, ASKS)

    async def enqueue_due(self) -> None:
        """Claim the slots that are due, as far as there are places."""
        ports, now = self._ports, self._ports.clock.now()
        while due := await ports.store.read(lambda tx: tx.schedules.due(now, limit=self._room(tx))):
            for schedule in due:
                await ports.store.write(self._claim(schedule, now))
            ports.signals.poke(INBOX, OUTBOX)

    def _claim(self, schedule: Schedule, now: float) -> Callable[[Tx], None]:
        """Plan the slots of a schedule; return the transaction that claims them, or that pauses an invalid one."""
        ids, settings = self._ports.ids, self._ports.settings()
        try:
            planned = plan(schedule, now, settings.retention_s)
        except ConfigError as error:
            why = str(error)
            return lambda tx: pause_broken(tx, ids, schedule, why, now)
        return lambda tx: claim(tx, ids, settings, schedule, planned, now)

    def _room(self, tx: Tx) -> int:
        places = max(1, self._ports.settings().max_turns_at_once // 2)
        return min(AT_ONCE, max(0, places - tx.schedules.working()))

    async def start_scripts(self, tasks: TaskGroup) -> None:
        """Start the scripts that are to run, a few at once; a script that ends wakes the scheduler."""
        runs = await self._ports.store.read(lambda tx: tx.schedules.open_runs())
        for run in runs:
            key = (run.schedule_id, run.slot)
            if run.state == "script" and key not in self._scripts and len(self._scripts) < SCRIPTS_AT_ONCE:
                self._scripts.add(key)
                tasks.start_soon(self._run_script, run)

    async def _run_script(self, run: Run) -> None:
        """Run one script, and go on with its result. Nothing is written if the gateway stops meanwhile."""
        ports, run = self._ports, replace(run, attempts=run.attempts + 1)
        try:
            result = await self._result(run)
            now = ports.clock.now()
            await ports.persist(lambda tx: script_ended(tx, ports.ids, ports.settings(), run, result, now))
            ports.log("schedule.script_ended", schedule=run.schedule_id, wake=result.wake, error=result.error)
        finally:
            self._scripts.discard((run.schedule_id, run.slot))
        ports.signals.poke(INBOX, OUTBOX, ASKS, SCHEDULES)

    async def _result(self, run: Run) -> ScriptResult:
        ports = self._ports
        if run.attempts > SCRIPT_TRIES:
            return GAVE_UP

        def begin(tx: Tx) -> tuple[Schedule, str] | None:
            tx.schedules.save_run(run)
            return workspace_for(tx, ports.settings(), run.schedule_id)

        found = await ports.persist(begin)
        if found is None:
            return ScriptResult(error="its task was removed")
        schedule, folder = found
        return await run_script(ports, schedule, folder)
