"""`bench/schedules [CRONS]`: slots of random crons over a year in four zones against the oracle, and the cost of a due check.

The due check reads the next time and what is due among 10,000 schedules (bound 2 ms). Missing a bound, or one slot, is exit
code 1.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import datetime
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from zoneinfo import ZoneInfo

from tests.runtime.cron_oracle import ZONES, random_cron, slots_of_year

from pilothouse.core.ids import ConversationId, ScheduleId
from pilothouse.core.schedule import Cron, Schedule
from pilothouse.core.store import Tx
from pilothouse.runtime.schedules.cron import cron_slots
from pilothouse.stores.sqlite import STORE

CRONS, SCHEDULES, CHECKS = 200, 10_000, 200
BOUND_MS = 2.0
YEAR = 2026


def compare(crons: int) -> tuple[int, int]:
    """Return how many slots were compared, and how many crons differ from the oracle in some zone."""
    random, slots, wrong = Random(2026), 0, 0
    for _ in range(crons):
        meant = random_cron(random)
        for zone in ZONES:
            expected = slots_of_year(meant, zone, YEAR)
            first = datetime(YEAR, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() - 1
            found = list(islice(cron_slots(Cron(meant.text, zone), first), len(expected))) if expected else []
            slots += len(expected)
            if found != expected:
                wrong += 1
                print(f"differs: {meant.text} in {zone}")
    return slots, wrong


async def measure_due_check() -> float:
    """Return the median of a due check, in milliseconds."""
    now = time.time()

    def fill(tx: Tx) -> None:
        for n in range(SCHEDULES):
            tx.schedules.save(
                Schedule(
                    ScheduleId(f"task-{n}"), ConversationId("c"), Cron("@daily"), "go", next_at=now + 60 + n
                )
            )

    def check(tx: Tx) -> None:
        tx.schedules.next_at()
        tx.schedules.due(now)
        tx.schedules.working()

    with TemporaryDirectory() as folder:
        async with STORE.open(STORE.config(path=str(Path(folder, "bench.db")))) as store:
            await store.write(fill)
            taken = list[float]()
            for _ in range(CHECKS):
                before = time.perf_counter()
                await store.read(check)
                taken.append((time.perf_counter() - before) * 1000)
    return median(taken)


def main() -> int:
    crons = int(sys.argv[1]) if len(sys.argv) > 1 else CRONS
    check_ms = asyncio.run(measure_due_check())
    print(f"one due check with {SCHEDULES:,} schedules: {check_ms:.2f} ms (bound {BOUND_MS:g} ms)")
    slots, wrong = compare(crons)
    print(f"{crons} crons in {len(ZONES)} zones over {YEAR}: {slots:,} slots, {wrong} differ (bound 0)")
    return 1 if wrong or check_ms > BOUND_MS else 0


if __name__ == "__main__":
    sys.exit(main())
