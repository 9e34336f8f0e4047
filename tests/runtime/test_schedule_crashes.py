"""A kill between any two steps of a due schedule: no slot is lost, none runs twice, and each ends once.

The scheduler works on a real store that dies after its n-th write. A new one goes on from what was durable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from tests.new_store import put_new_store

from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ChannelId, ConversationId, EngineId, Epoch, ScheduleId
from pilothouse.core.message import Address
from pilothouse.core.schedule import At, Cron, Every, Run, Schedule
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.runtime.gateway import TOPICS
from pilothouse.runtime.ports import Ports, ScriptEnd
from pilothouse.runtime.schedules.scheduler import Scheduler
from pilothouse.runtime.schedules.script import hash_script
from pilothouse.runtime.settings import Settings
from pilothouse.stores.sqlite import STORE
from pilothouse.testing.clock import CountedIds, FakeClock

pytestmark = pytest.mark.anyio

T = TypeVar("T")
HERE = ConversationId("memory:main")
STEP, STEPS = 300.0, 4
END = FakeClock().now() + STEP * STEPS


class Killed(Exception):
    pass


class MortalStore:
    """Dies after `left` writes: the last one is durable, and nobody hears of it."""

    def __init__(self, store: Store, left: int) -> None:
        self._store = store
        self.left = left
        self.epoch: Epoch | None = store.epoch

    async def write(self, unit: Callable[[Tx], T]) -> T:
        if self.left < 0:
            raise Killed
        result = await self._store.write(unit)
        self.left -= 1
        if self.left < 0:
            raise Killed
        return result

    async def read(self, unit: Callable[[Tx], T]) -> T:
        return await self._store.read(unit)

    def changes(self, *, of_others: bool = False) -> AsyncIterator[None]:
        return self._store.changes(of_others=of_others)

    async def close(self) -> None: ...


def set_up(tx: Tx) -> None:
    start = FakeClock().now()
    tx.nodes.join(NodeInfo("n", "h", 1, ""), ("engines",), start)
    tx.conversations.ensure(Conversation(HERE, Address(ChannelId("memory"), "main"), start))
    for schedule in (
        Schedule(ScheduleId("cron"), HERE, Cron("*/5 * * * *"), "a", "all", start + STEP, max_age_s=9e9),
        Schedule(ScheduleId("once"), HERE, At(start + 400), "b", next_at=start + 400),
        Schedule(
            ScheduleId("script"),
            HERE,
            Every(2 * STEP, start),
            "c",
            "all",
            start + STEP * 2,
            script="x",
            approved=hash_script("x"),
        ),
    ):
        tx.schedules.save(schedule)


def work(tx: Tx, now: float) -> None:
    """All that waits is done, as if by turns."""
    for run in tx.schedules.open_runs():
        row = tx.inbox.by_key(f"schedule:{run.schedule_id}:{run.slot}")
        if row is not None and row.status == "queued":
            tx.inbox.claim([row.id])
            tx.inbox.done(row.id, now)


def all_runs(tx: Tx) -> list[Run]:
    return tx.schedules.runs(limit=100)


def attempts_of(tx: Tx, *, runs: list[Run]) -> list[int]:
    """How often each slot's message was taken."""
    rows = [tx.inbox.by_key(f"schedule:{run.schedule_id}:{run.slot}") for run in runs]
    return [row.attempts for row in rows if row is not None]


async def live(store: Store, clock: FakeClock, ids: CountedIds, left: int) -> int:
    """Work until the end of the time, or until the store dies; return how many writes were left."""

    async def run_script(script: str, folder: str, within_s: float, most_bytes: int) -> ScriptEnd:
        return ScriptEnd(b'{"wakeAgent": true, "data": 1}', exit_code=0)

    mortal = MortalStore(store, left)
    settings = Settings(EngineId("puppet"), "/w")
    ports = Ports(
        topics=TOPICS, store=mortal, clock=clock, ids=ids, settings=lambda: settings, engines={}, channels={}
    )
    ports.run_script = run_script
    scheduler = Scheduler(ports)
    while True:
        await scheduler.settle()
        await scheduler.enqueue_due()
        with suppress(ExceptionGroup):
            async with anyio.create_task_group() as tasks:
                await scheduler.start_scripts(tasks)
        await mortal.write(lambda tx: work(tx, clock.now()))
        await scheduler.settle()
        if clock.now() >= END:
            return mortal.left
        clock.jump(STEP / 2)


async def test_a_kill_between_any_two_writes_neither_loses_nor_doubles_a_slot(tmp_path: Path) -> None:
    start, kills, finished = FakeClock().now(), 0, False
    expected = {("cron", start + STEP * n) for n in range(1, STEPS + 1)} | {
        ("once", start + 400),
        ("script", start + STEP * 2),
        ("script", start + STEP * 4),
    }
    while not finished:
        path = put_new_store(tmp_path / f"{kills}.db")
        async with STORE.open(STORE.config(path=str(path))) as store:
            await store.write(set_up)
            clock, ids = FakeClock(), CountedIds()
            try:
                await live(store, clock, ids, left=kills)
                finished = True
            except Killed:
                await live(store, clock, ids, left=10_000)

            runs: list[Run] = await store.read(all_runs)
            assert Counter((run.schedule_id, run.slot) for run in runs) == Counter(expected), kills
            assert {run.state for run in runs} == {"ran"}
            attempts = await store.read(partial(attempts_of, runs=runs))
            assert attempts == [1] * len(runs)
        kills += 1
    assert kills > 15, "each write was the last one once"
