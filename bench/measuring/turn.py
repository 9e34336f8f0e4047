"""One turn, from handing a message over to its final answer, against three bare durable commits.

The commits are interleaved with the turns on the same disk, so that both see the same machine.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.script import open_script_engine
from bench.measuring.statistics import median, quantile
from bench.measuring.table import Row

WARM = 30
TURNS = 400
SCRIPT_TURNS = 100
SCRIPT = '[[turn]]\nsteps = [{ say = "You said: {prompt}" }]\n'


def measure() -> list[Row]:
    with TemporaryDirectory(prefix="pilothouse-turn-") as folder:
        return anyio.run(_measure, Path(folder))


async def _measure(folder: Path) -> list[Row]:
    commit = bare_commits(folder / "bare.db")
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    async with open_store(folder / "one") as store:
        person = Person()
        async with open_house(store, folder, person):
            bare, turns = await _sample(person, commit, TURNS)
    script = open_script_engine(folder, SCRIPT)
    async with open_store(folder / "two") as store:
        person = Person()
        async with open_house(store, folder, person, script):
            bare_then, real = await _sample(person, commit, SCRIPT_TURNS)
    three, three_then = median(bare), median(bare_then)
    p50, p99 = median(turns), quantile(turns, 0.99)
    detail = f"{p50 * 1e3:.1f} ms against {three * 1e3:.2f} ms, {TURNS} turns"
    late = f"{p99 * 1e3:.1f} ms against the same; 3 commits at p99: {quantile(bare, 0.99) * 1e3:.1f} ms"
    real_detail = f"{median(real) * 1e3:.1f} ms; p99 {quantile(real, 0.99) * 1e3:.1f} ms; a real subprocess"
    return [
        Row("one turn against 3 commits, p50", p50 / three, 10, "×", detail),
        Row("one turn against 3 commits, p99", p99 / three, 40, "×", late),
        Row("the same with the script engine, p50", median(real) / three_then, None, "×", real_detail),
    ]


async def _sample(person: Person, commit: Callable[[], None], turns: int) -> tuple[list[float], list[float]]:
    bare: list[float] = []
    whole: list[float] = []
    for number in range(WARM + turns):
        began = time.perf_counter()
        for _ in range(3):
            commit()
        bare.append(time.perf_counter() - began)
        whole.append((await person.turn(f"message {number}"))[0])
    return bare[WARM:], whole[WARM:]


def bare_commits(path: Path) -> Callable[[], None]:
    """What SQLite alone asks for one durable row: the same settings as the store's."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)")

    def commit() -> None:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO rows (text) VALUES ('one row')")
        db.execute("COMMIT")

    return commit
