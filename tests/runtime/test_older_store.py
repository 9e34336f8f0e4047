"""A store written before the modules were moved into rooms: its open ask, queued message, rule and audit log still count.

The gateway that wrote it was killed while a turn waited for an answer.
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
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

DUMP = Path(__file__).parent / "fixtures" / "store_before_rooms.sql"
SOON_AFTER = 1_794_949_750.0
BUILD = Ask(AskId("a"), "approval", "Run make?", {"tool": "Bash", "input": {"command": "make"}, "cwd": "/w"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "pilothouse.db")) as db:
        db.executescript(DUMP.read_text("utf-8"))
        db.execute("PRAGMA journal_mode = WAL")
    return tmp_path


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
