"""Stores of older versions.

One was written before the modules were moved into rooms: its open ask, queued message, rule and audit log still count. The
gateway that wrote it was killed while a turn waited for an answer. Another was written before schedules had runs.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import MAIN, only_alive, open_rig

from pilothouse.core.ask import Ask, hash_payload
from pilothouse.core.ids import AskId
from pilothouse.core.schedule import task_place
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

FIXTURES = Path(__file__).parent / "fixtures"
DUMP = FIXTURES / "store_before_rooms.sql"
BEFORE_RUNS = FIXTURES / "store_before_runs.sql"
ITS_WORKSPACE = "/tmp/oldstore"
SOON_AFTER = 1_794_949_750.0
BUILD = Ask(AskId("a"), "approval", "Run make?", {"tool": "Bash", "input": {"command": "make"}, "cwd": "/w"})


def restore(dump: Path, folder: Path) -> Path:
    with closing(sqlite3.connect(folder / "pilothouse.db")) as db:
        db.executescript(dump.read_text("utf-8").replace(ITS_WORKSPACE, str(folder)))
        db.execute("PRAGMA journal_mode = WAL")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return restore(DUMP, tmp_path)


async def test_its_ask_is_answered_and_its_queued_message_runs(folder: Path) -> None:
    async def build(strings: Strings) -> None:
        await strings.start()
        told = await strings.ask(BUILD)
        await strings.end(f"told: {told.verdict}")

    async def test(strings: Strings) -> None:
        await strings.start()
        await strings.end("tested")

    clock, engine = FakeClock(SOON_AFTER), PuppetEngine(build, test)
    async with open_rig(folder, engine, name="second", alive=only_alive("second"), clock=clock) as rig:
        (row,) = await rig.store.read(lambda tx: tx.asks.open_in(MAIN))
        assert row.ask.payload_hash == hash_payload(BUILD.payload)
        assert [rule.rule for rule in await rig.store.read(lambda tx: tx.rules.list())] == [
            "allow command make test"
        ]
        assert [line.what for line in await rig.store.read(lambda tx: tx.audit.list(limit=100))].count(
            "ask.asked"
        ) == 1
        await rig.channel.answer(row.ask, "allow")
        await rig.until_said("told: allow")
        await rig.until_said("tested")
        assert [turn.prompt.text for turn in engine.turns][1] == "and then test it"
        assert (await rig.store.read(lambda tx: tx.audit.verify())).why == ""


async def test_its_schedules_go_on_and_what_was_due_runs_once(tmp_path: Path) -> None:
    """`nightly` was due and in the inbox when the gateway was killed; `often` was paused."""

    async def answer(strings: Strings) -> None:
        await strings.start(strings.brief.session_id)
        await strings.end(f"done: {strings.prompt.text}")

    first = 1_800_000_000.0
    clock, engine = FakeClock(first + 3590), PuppetEngine(answer, answer)
    async with open_rig(restore(BEFORE_RUNS, tmp_path), engine, name="second", clock=clock) as rig:
        nightly, often = await rig.store.read(lambda tx: tx.schedules.of())
        assert (nightly.next_at, nightly.own_session, nightly.script) == (first + 3600, True, "")
        assert often.paused
        await rig.until_said("the hourly report")
        await clock.advance(10)
        place = task_place(MAIN, nightly.id)
        await rig.until(lambda tx: [run.state for run in tx.schedules.runs()] == ["ran"])
        assert [turn.conversation_id for turn in [*await rig.turns(), *await rig.turns(place)]] == [
            MAIN,
            place,
        ]
        (run,) = await rig.store.read(lambda tx: tx.schedules.runs())
        assert (run.schedule_id, run.slot) == ("nightly", first + 3600)
