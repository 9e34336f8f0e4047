"""What real processes do to each other: killed, paused, doubled, without room on the disk, with a torn log."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import sys
import time
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

import pytest
from bench.crashing.house import Home
from tests.crash.driving import PATIENCE_S, Gate, wait_for_marked, wait_until_gone

from pilothouse.core.errors import StoreError
from pilothouse.core.store import Store
from pilothouse.stores.sqlite import STORE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc and sets limits"),
]

STUBBORN = """
[[turn]]
match = "dig in"
steps = [{ spawn = "a child that leaves" }, { ignore_sigterm = true }, { hang = true }]

[[turn]]
steps = [{ say = "You said: {prompt}" }]
"""


def inbox(home: Path) -> dict[str, str]:
    """Native id → status."""
    with sqlite3.connect(home / "pilothouse.db") as database:
        rows = database.execute("SELECT key, status FROM inbox").fetchall()
    database.close()
    return {key.partition("|")[2]: status for key, status in rows}


def wait_until_begun(home: Path) -> None:
    """The store knows that a turn has done something: else it would run again after a kill."""
    deadline = time.monotonic() + PATIENCE_S
    with closing(sqlite3.connect(home / "pilothouse.db")) as database:
        while not database.execute("SELECT 1 FROM turns WHERE began").fetchall():
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_no_engine_of_a_killed_gateway_outlives_the_next_start(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.toml"
    script.write_text(STUBBORN)
    with Gate(tmp_path, "--script", str(script)) as killed:
        killed.say("m1", "dig in")
        left = wait_for_marked(tmp_path, least=2)
        wait_until_begun(tmp_path)
        killed.kill()
        assert left & wait_for_marked(tmp_path, least=1), "the engine hangs, and so outlives its gateway"
    with Gate(tmp_path, "--script", str(script)) as second:
        second.until("ready")
        wait_until_gone(tmp_path, left)
        second.until("shown", "stopped in the middle")
        second.say("m2", "still there?")
        second.until("shown", "You said: still there?")
        second.stop()
    wait_until_gone(tmp_path, wait_for_marked(tmp_path, least=0))


def test_a_paused_gateway_writes_nothing_once_another_has_taken_over(tmp_path: Path) -> None:
    with Gate(tmp_path, "--lease-s", "1") as paused:
        paused.say("m1", "hello")
        paused.until("shown", "You said: hello")
        pause_between_commits(paused, tmp_path)
        take_over_from(paused, tmp_path)
        assert paused.all("acked") == ["m1"]
    assert inbox(tmp_path) == {"m1": "done", "m2": "done"}


def pause_between_commits(gate: Gate, home: Path) -> None:
    """Whoever is paused within a commit holds the file's lock: then nobody can write, and nobody can take over."""
    database = sqlite3.connect(home / "pilothouse.db", timeout=0, isolation_level=None)
    while True:
        gate.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, gate.pid, os.WSTOPPED)  # what it was about to do is done
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            gate.signal(signal.SIGCONT)
            time.sleep(0.02)
            continue
        database.execute("ROLLBACK")
        database.close()
        return


def take_over_from(paused: Gate, home: Path) -> None:
    with Gate(home, "--lease-s", "1", "--standby") as second:
        second.until("taken")
        paused.say("late", "I was late")
        paused.signal(signal.SIGCONT)
        assert paused.until("ended") == "Fenced"
        assert "took over" in paused.all("error")[-1]
        second.say("m2", "hello again")
        second.until("shown", "You said: hello again")
        second.stop()


def test_a_second_gateway_says_who_holds_the_store_and_leaves(tmp_path: Path) -> None:
    with Gate(tmp_path) as first:
        first.until("ready")
        with Gate(tmp_path) as second:
            assert second.until("ended") == "RoleHeld"
            assert f"gate (pid {first.pid} on" in second.all("error")[-1]
        first.say("m1", "hello")
        first.until("shown", "You said: hello")
        first.stop()


@pytest.mark.parametrize("kill", [False, True], ids=["and room comes back", "and it is killed"])
def test_a_full_disk_loses_nothing_that_was_acknowledged(tmp_path: Path, kill: bool) -> None:
    home, count = Home(tmp_path), 60
    with Gate(tmp_path) as gate:
        gate.say("first", "before it is full")
        gate.until("shown", "before it is full")
        gate.order(limit=(tmp_path / "pilothouse.db-wal").stat().st_size + 100_000)
        gate.until("limited")
        for number in range(count):
            gate.say(f"m{number}", f"word-{number}. {'x' * 2000}")
        gate.until("refused")
        gate.until_replied(count + 1)
        assert any("disk" in line.get("error", "") for line in gate.told), gate.told[-3:]
        acked, refused = set(gate.all("acked")), set(gate.all("refused"))
        if kill:
            gate.kill()
        else:
            gate.order(limit=None)
            for native_id in refused:
                gate.say(native_id, "once more")
            for native_id in refused:
                gate.until("acked", native_id)
            gate.say("last", "the very last")
            gate.until("shown", "the very last")
            gate.stop()
    if kill:
        with Gate(tmp_path) as second:
            second.say("last", "the very last")
            second.until("shown", "the very last")
            second.stop()
        assert not refused & set(inbox(tmp_path)), "what was refused was not kept"
    told = inbox(tmp_path)
    assert {told[native_id] for native_id in acked} == {"done"}
    assert_each_answered_once(home, acked)


def assert_each_answered_once(home: Home, acked: set[str]) -> None:
    with sqlite3.connect(home.database) as database:
        answers = [row[0] for row in database.execute("SELECT answer FROM turns WHERE status = 'done'")]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    for native_id in acked - {"first", "last"}:
        word = f"word-{native_id.removeprefix('m')}."
        assert sum(word in answer for answer in answers) == 1, native_id


@pytest.fixture(scope="module")
def killed_home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A gateway that was killed, and how long its log was after each of ten acknowledgements."""
    home, sizes = tmp_path_factory.mktemp("killed"), list[int]()
    with Gate(home) as gate:
        for number in range(10):
            gate.say(f"m{number}", f"hold on, number {number}")
            gate.until("acked", f"m{number}")
            sizes.append((home / "pilothouse.db-wal").stat().st_size)
        gate.kill()
    wait_until_gone(home, wait_for_marked(home, least=0))
    return home, sizes


@pytest.mark.parametrize("kept", range(10))
@pytest.mark.parametrize("extra", [0, 1, 24, 2000], ids=["whole", "one byte", "a head", "half a frame"])
async def test_a_torn_log_keeps_what_was_acknowledged_before_the_tear(
    killed_home: tuple[Path, list[int]], tmp_path: Path, kept: int, extra: int
) -> None:
    home, sizes = killed_home
    copy = shutil.copytree(home, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm", "*.wake"))
    log = copy / "pilothouse.db-wal"
    log.write_bytes(log.read_bytes()[: sizes[kept] + extra])
    await assert_holds(copy, kept + 1)


async def test_a_flipped_bit_in_the_log_costs_no_more_than_what_came_after_it(
    killed_home: tuple[Path, list[int]], tmp_path: Path
) -> None:
    home, sizes = killed_home
    copy = shutil.copytree(home, tmp_path / "copy", ignore=shutil.ignore_patterns("*-shm", "*.wake"))
    log = copy / "pilothouse.db-wal"
    data = bytearray(log.read_bytes())
    data[sizes[8] + 100] ^= 1
    log.write_bytes(data)
    await assert_holds(copy, 9)


async def test_a_damaged_database_is_refused_in_plain_words(
    killed_home: tuple[Path, list[int]], tmp_path: Path
) -> None:
    copy = shutil.copytree(killed_home[0], tmp_path / "copy", ignore=shutil.ignore_patterns("*.wake"))
    for tail in ("-wal", "-shm"):
        (copy / f"pilothouse.db{tail}").unlink()
    (copy / "pilothouse.db").write_bytes(b"no database at all" * 500)
    with pytest.raises(StoreError, match="is not a SQLite database; name another path, or restore a backup"):
        async with STORE.open(STORE.config(path=str(copy / "pilothouse.db"))):
            pass


async def assert_holds(home: Path, count: int) -> None:
    """The first `count` messages are there, and the database is sound."""
    opened: AbstractAsyncContextManager[Store] = STORE.open(STORE.config(path=str(home / "pilothouse.db")))
    async with opened as store:
        for number in range(count):
            key = f"memory:main|m{number}"
            assert await store.read(lambda tx, key=key: tx.inbox.by_key(key)), key
    with sqlite3.connect(home / "pilothouse.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        bodies = [json.loads(row[0]) for row in database.execute("SELECT body FROM inbox")]
    database.close()
    assert all(body["text"].startswith("hold on") for body in bodies)
