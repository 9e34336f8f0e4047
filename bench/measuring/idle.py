"""How much memory a conversation costs that once had a turn and now says nothing.

Measured in a process of its own, after enough turns elsewhere that caches of a fixed size are full.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.machine import rss_kb
from bench.measuring.table import Row

CONVERSATIONS = 5000
WARM = 6000
AT_ONCE = 50


def measure() -> list[Row]:
    argv = [sys.executable, "-m", "bench.measuring.idle"]
    told = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    before, after = map(int, told.split())
    per_conversation = (after - before) / CONVERSATIONS
    detail = f"{before / 1024:.1f} MB before, {after / 1024:.1f} MB after {CONVERSATIONS:,} of them"
    return [Row("memory per idle conversation", per_conversation, 10, "kB", detail)]


async def _measure(folder: Path) -> None:
    person = Person()
    person.channel.keep = 100
    async with open_store(folder) as store, open_house(store, folder, person, max_turns_at_once=AT_ONCE):
        for number in range(0, WARM, AT_ONCE):
            await _turns(person, [f"warm-{place}" for place in range(AT_ONCE)], number)
        before = await _resident()
        for number in range(0, CONVERSATIONS, AT_ONCE):
            await _turns(person, [f"place-{number + place}" for place in range(AT_ONCE)], number)
        print(before, await _resident())


async def _turns(person: Person, places: list[str], number: int) -> None:
    async with anyio.create_task_group() as tasks:
        for place in places:
            tasks.start_soon(person.turn, f"message {number}", place)


async def _resident() -> int:
    await anyio.sleep(2)
    gc.collect()
    return rss_kb()


if __name__ == "__main__":
    with TemporaryDirectory(prefix="pilothouse-idle-") as name:
        anyio.run(_measure, Path(name))
