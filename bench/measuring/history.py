"""What a message costs when a million lie behind it, against a thousand. Turns alternate between the two stores."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.measuring.house import Person, open_house, open_store
from bench.measuring.statistics import median
from bench.measuring.table import Row

FEW = 1_000
MANY = 1_000_000
PLACES = 500
WARM = 40
TURNS = 250

FILL = """
INSERT INTO conversations (id, channel, place, created_at, private)
SELECT 'memory:old-' || value, 'memory', 'old-' || value, :at, 1 FROM generate WHERE value < :places;
INSERT INTO sessions (id, conversation_id, engine, workspace, created_at, used_at, retired, failed_resumes, turns,
                      cost_usd)
SELECT 'session-' || value, 'memory:old-' || value, 'instant', '/', :at, :at, 0, 0, 1, 0.0
FROM generate WHERE value < :places;
INSERT INTO inbox (id, key, lane, conversation_id, kind, body, status, ready_at, attempts, created_at, turn_id, why,
                   epoch, ended_at)
SELECT 'msg-' || value, 'key-' || value, 'memory:old-' || (value % :places), 'memory:old-' || (value % :places),
       'chat', :message, 'done', 0.0, 1, :at, 'turn-' || value, 'done', 1, :at FROM generate;
INSERT INTO turns (id, session_id, conversation_id, engine, status, cause, prompt, created_at, attempts, began,
                   stop_requested, epoch, started_at, ended_at, answer)
SELECT 'turn-' || value, 'session-' || (value % :places), 'memory:old-' || (value % :places), 'instant', 'done',
       'message', CAST('{"text":"hello"}' AS BLOB), :at, 1, 1, 0, 1, :at, :at, 'an answer' FROM generate;
INSERT INTO events (conversation_id, seq, turn_id, turn_seq, at, schema, body)
SELECT 'memory:old-' || (value % :places), value / :places + 1, 'turn-' || value, 1, :at, 1, :event FROM generate;
INSERT INTO event_sequences (conversation_id, last)
SELECT conversation_id, max(seq) FROM events GROUP BY conversation_id;
INSERT INTO outbox (id, key, lane, conversation_id, kind, body, status, ready_at, attempts, created_at, turn_id, why,
                    epoch, ended_at)
SELECT 'out-' || value, 'end:turn-' || value, 'memory:old-' || (value % :places),
       'memory:old-' || (value % :places), 'answer', :content, 'done', 0.0, 1, :at, 'turn-' || value, 'sent', 1, :at
FROM generate;
INSERT INTO outbox_parts (id, number, part, state, sends, ref)
SELECT 'out-' || value, 0, :part, 'sent', 1, CAST('{"address":{"channel":"memory","place":"old-'
       || (value % :places) || '"},"native_id":"m' || value || '"}' AS BLOB) FROM generate;
"""
TEXT = "x" * 80
VALUES = {
    "message": f'{{"text":"{TEXT}"}}'.encode(),
    "event": f'{{"type":"text_delta","block_id":"b","text":"{TEXT}"}}'.encode(),
    "content": f'{{"text":"{TEXT}","kind":"answer"}}'.encode(),
    "part": f'{{"text":"{TEXT}"}}'.encode(),
}


def measure() -> list[Row]:
    with TemporaryDirectory(prefix="pilothouse-history-") as folder:
        return anyio.run(_measure, Path(folder))


async def _measure(folder: Path) -> list[Row]:
    wall: dict[int, list[float]] = {FEW: [], MANY: []}
    cpu: dict[int, list[float]] = {FEW: [], MANY: []}
    people: dict[int, Person] = {}
    for rows in (FEW, MANY):
        place = folder / str(rows)
        place.mkdir()
        async with open_store(place):
            pass
        fill(place / "pilothouse.db", rows)
        people[rows] = Person()
    async with (
        open_store(folder / str(FEW)) as few,
        open_store(folder / str(MANY)) as many,
        open_house(few, folder, people[FEW]),
        open_house(many, folder, people[MANY]),
    ):
        for number in range(WARM + TURNS):
            for rows in (FEW, MANY) if number % 2 else (MANY, FEW):
                began = time.process_time()
                wall[rows].append((await people[rows].turn(f"message {number}"))[0])
                await anyio.sleep(0.002)  # what follows the answer belongs to its message too
                cpu[rows].append(time.process_time() - began)
    wall_s = {rows: median(times[WARM:]) for rows, times in wall.items()}
    cpu_s = {rows: median(times[WARM:]) for rows, times in cpu.items()}
    size_mb = (folder / str(MANY) / "pilothouse.db").stat().st_size / 1e6
    return [
        _row("wall", wall_s, f"{MANY:,} messages with turn, event, answer and part: {size_mb:.0f} MB"),
        _row("CPU", cpu_s, ""),
    ]


def _row(kind: str, took: dict[int, float], more: str) -> Row:
    detail = f"{took[MANY] * 1e3:.2f} ms against {took[FEW] * 1e3:.2f} ms"
    what = f"a message after {MANY:,} finished ones against {FEW:,}, {kind}"
    return Row(what, took[MANY] / took[FEW], 1.2, "×", "; ".join(filter(None, [detail, more])))


def fill(path: Path, rows: int) -> None:
    """Finished work, straight into the tables. Indexes are made afterwards, as no writer would, to save minutes."""
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -200000", "temp_store = MEMORY"):
        db.execute(f"PRAGMA {pragma}")
    indexes = db.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    ).fetchall()
    for name, _ in indexes:
        db.execute(f"DROP INDEX {name}")
    db.execute("BEGIN")
    db.execute("CREATE TEMP TABLE generate (value INTEGER PRIMARY KEY)")
    db.execute(
        "WITH RECURSIVE n (v) AS (SELECT 0 UNION ALL SELECT v + 1 FROM n WHERE v + 1 < ?)"
        " INSERT INTO generate SELECT v FROM n",
        (rows,),
    )
    values = {**VALUES, "at": time.time() - 3600, "places": min(PLACES, rows)}
    for statement in FILL.split(";")[:-1]:
        db.execute(statement, values)
    for _, sql in indexes:
        db.execute(sql)
    db.execute("COMMIT")
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
