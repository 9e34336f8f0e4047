"""Two hundred conversations at once, each of which streams twenty deltas in one second. Nothing may be lost."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.script import open_script_engine
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row

from pilothouse.core.event import TextDelta
from pilothouse.core.ids import ConversationId
from pilothouse.core.store import Store, Tx

CROWD = 200
DELTAS = 20
EVERY_S = 0.05
CHUNK = 12
ROUNDS = 3
SCRIPT = f"""
[[turn]]
steps = [{{ say = "ready" }}]

[[turn]]
steps = [{{ stream = "{{prompt}}", chunk = {CHUNK}, every_s = {EVERY_S} }}]
"""


def measure() -> list[Row]:
    with TemporaryDirectory(prefix="pilothouse-crowd-") as folder:
        return anyio.run(_measure, Path(folder))


async def _measure(folder: Path) -> list[Row]:
    person = Person()
    script = open_script_engine(folder, SCRIPT)
    async with (
        open_store(folder) as store,
        open_house(store, folder, person, script, max_turns_at_once=CROWD + 56),
    ):
        await _all_speak(person, ["first"] * CROWD)
        rounds = [await _round(store, person, number) for number in range(ROUNDS)]
    times = min((times for times, _ in rounds), key=median)
    lost, all_deltas = sum(lost for _, lost in rounds), ROUNDS * CROWD * DELTAS
    detail = f"p99 {quantile(times, 0.99):.2f} s, slowest {max(times):.2f} s; the best of "
    detail += ", ".join(f"{median(times):.2f}" for times, _ in rounds)
    detail += f" s; {all_deltas - lost:,} of {all_deltas:,} deltas logged and delivered"
    return [
        Row(
            f"{CROWD} conversations stream {DELTAS} deltas in 1 s, p50 of a turn",
            median(times),
            1.5,
            "s",
            detail,
            f"{lost} deltas lost" if lost else "",
        )
    ]


async def _round(store: Store, person: Person, number: int) -> tuple[list[float], int]:
    said = [_words(number, place) for place in range(CROWD)]
    results = await _all_speak(person, said)
    return [seconds for seconds, _ in results], await _lost(store, said, [answer for _, answer in results])


def _words(number: int, place: int) -> str:
    """Twenty pieces that occur nowhere else."""
    pieces = [f"r{number}c{place:03d}d{delta:02d}".ljust(CHUNK, ".") for delta in range(DELTAS)]
    return "".join(pieces)


async def _all_speak(person: Person, said: list[str]) -> list[tuple[float, str]]:
    results: list[tuple[float, str]] = [(0.0, "")] * len(said)

    async def speak(number: int) -> None:
        results[number] = await person.turn(said[number], f"place-{number}")

    async with anyio.create_task_group() as tasks:
        for number in range(len(said)):
            tasks.start_soon(speak, number)
    return results


async def _lost(store: Store, said: list[str], answers: list[str]) -> int:
    """Deltas whose text is not, in order, in the event log, or not in the final answer."""
    lost = 0
    for number, text in enumerate(said):
        logged = await store.read(lambda tx, number=number: _logged(tx, number))
        for start in range(0, len(text), CHUNK):
            piece = text[start : start + CHUNK]
            lost += piece not in logged or piece not in answers[number]
        lost += text not in logged
    return lost


def _logged(tx: Tx, number: int) -> str:
    rows = tx.events.after(ConversationId(f"memory:place-{number}"), 0)
    return "".join(row.event.text for row in rows if isinstance(row.event, TextDelta))
