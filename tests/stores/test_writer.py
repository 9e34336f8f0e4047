"""The one writer: what is acknowledged is there, what fails fails alone, and it never hangs."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import sys
import threading
from contextlib import closing
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.stores.sqlite_cases import change, child, open_at, output, query

from pilothouse.core.errors import StoreError, StoreUnavailable
from pilothouse.core.event import SessionStarted
from pilothouse.core.ids import MessageId, TurnId
from pilothouse.core.store import Store, Tx
from pilothouse.stores.sqlite.link import connect, make_durable
from pilothouse.testing.store_builders import C1, add_places, ask_row, put, turn

pytestmark = pytest.mark.anyio
SETTINGS = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "p.db"


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pilothouse-store")]


async def set_fact(store: Store, key: str) -> None:
    await store.write(lambda tx: tx.set_fact(key, "v"))


async def fact(store: Store, key: str) -> str | None:
    return await store.read(lambda tx: tx.get_fact(key))


async def test_importing_the_package_opens_and_loads_nothing() -> None:
    code = "import sys, pilothouse.stores.sqlite; print('sqlite3' in sys.modules, 'anyio' in sys.modules)"
    found = await anyio.run_process([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)})
    assert found.stdout.decode().split() == ["False", "False"]


async def test_the_files_are_private(path: Path) -> None:
    async with open_at(path) as store:
        await store.write(lambda tx: tx.set_fact("k", "v"))
        await store.write(lambda tx: tx.blobs.put(b"x" * 300_000, "text/plain", 1.0))
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert modes.pop("p.db.wake") == modes.pop("p.db.blobs") == 0o700
    assert set(modes) == {"p.db", "p.db-wal", "p.db-shm"} and set(modes.values()) == {0o600}


async def test_a21_files_that_others_could_read_or_replace_are_made_private(path: Path) -> None:
    async with open_at(path) as store:
        await store.write(lambda tx: tx.blobs.put(b"x" * 300_000, "text/plain", 1.0))
    path.chmod(0o644)
    path.with_name("p.db.blobs").chmod(0o755)
    path.parent.chmod(0o777)
    async with open_at(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.with_name("p.db.blobs").stat().st_mode) == 0o700
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o775, "a group may be meant: doctor tells of it"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file somebody else's")
async def test_a21_a_link_of_another_user_is_refused(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path.with_name("elsewhere.db"))
    async with open_at(path):
        pass
    os.chown(path, 12345, -1, follow_symlinks=False)
    with pytest.raises(StoreError, match="another user made"):
        async with open_at(path):
            pass


def test_a_commit_waits_for_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    with closing(connect(path, 1.5)) as db:
        make_durable(db, path)
        settings = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in SETTINGS]
    assert settings == ["wal", 2, 1, 1500]


async def test_large_bytes_leave_no_trace_but_their_file(path: Path) -> None:
    def failing(tx: Tx) -> None:
        tx.blobs.put(b"x" * 300_000, "text/plain", 1.0)
        raise LookupError

    folder = path.with_name("p.db.blobs")
    async with open_at(path) as store:
        with pytest.raises(LookupError):
            await store.write(failing)
        assert [file for file in folder.rglob("*") if file.is_file()] == []
        blob = await store.write(lambda tx: tx.blobs.put(b"x" * 300_000, "text/plain", 1.0))
        assert [file for file in folder.rglob("*") if file.is_file()] == [folder / blob[:2] / blob[2:]]


async def test_commits_are_durable_and_readers_never_wait(path: Path) -> None:
    async with open_at(path) as store:
        assert query(path, "PRAGMA journal_mode") == [("wal",)]
        reading, go_on = threading.Event(), threading.Event()

        def slow(tx: Tx) -> None:
            tx.set_fact("k", "new")
            reading.set()
            assert go_on.wait(20)

        async with anyio.create_task_group() as group:
            group.start_soon(store.write, slow)
            await anyio.to_thread.run_sync(reading.wait)
            assert await fact(store, "k") is None, "not committed, and we did not wait for it"
            go_on.set()
        assert await fact(store, "k") == "new"


async def test_units_that_wait_together_share_one_commit(path: Path) -> None:
    commits: list[int] = []
    async with open_at(path, on_commit=lambda: commits.append(1)) as store:
        go_on = threading.Event()

        def first(tx: Tx) -> None:
            tx.set_fact("first", "v")
            assert go_on.wait(20)

        async with anyio.create_task_group() as group:
            group.start_soon(store.write, first)
            await anyio.lowlevel.checkpoint()
            for number in range(40):
                group.start_soon(set_fact, store, str(number))
            await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert len(commits) <= 3
        assert await store.read(lambda tx: [tx.get_fact(str(number)) for number in range(40)]) == ["v"] * 40


async def test_on_commit_runs_before_anybody_is_told(path: Path) -> None:
    seen: list[object] = []
    async with open_at(path, on_commit=lambda: seen.append(query(path, "SELECT * FROM facts"))) as store:
        await store.write(lambda tx: tx.set_fact("k", "v"))
        assert seen == [[("k", "v")]]
        await store.write(lambda tx: tx.inbox.withdraw(MessageId("nobody"), 1.0, ""))
    assert len(seen) == 1, "what changed nothing is no commit to tell of"


async def test_a_store_that_is_locked_says_so_and_loses_nothing(path: Path) -> None:
    async with open_at(path, busy_timeout_s=0.05) as store:
        await store.write(lambda tx: tx.set_fact("k", "old"))
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"p\.db.*try again"):
                await store.write(lambda tx: tx.set_fact("k", "new"))
            assert await fact(store, "k") == "old"
            other.execute("ROLLBACK")
        await store.write(lambda tx: tx.set_fact("k", "new"))
        assert await fact(store, "k") == "new"


async def test_those_who_waited_for_a_lock_together_hear_of_it_together(path: Path) -> None:
    """One after the other they would wait for a minute."""
    refused: list[str] = []

    async def try_it(store: Store, key: str) -> None:
        try:
            await set_fact(store, key)
        except StoreUnavailable:
            refused.append(key)

    async with open_at(path, busy_timeout_s=1.0) as store:
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with anyio.fail_after(60):
                async with anyio.create_task_group() as group:
                    for number in range(60):
                        group.start_soon(try_it, store, str(number))
    assert len(refused) == 60


async def test_who_comes_late_waits_for_a_lock_as_long_as_anybody(path: Path) -> None:
    """The first gives up; the second came while it waited, and the lock is gone before its own time is up."""
    async with open_at(path, busy_timeout_s=1.5) as store:
        for _ in range(5):  # the second may come before the first has begun to wait, and gives up with it
            if await comes_late(store, path):
                return
    pytest.fail("who came while another waited gave up with it, five times")


async def comes_late(store: Store, path: Path) -> bool:
    gave_up, kept = anyio.Event(), list[str]()

    async def give_up() -> None:
        with pytest.raises(StoreUnavailable):
            await set_fact(store, "first")
        gave_up.set()

    async def wait_longer() -> None:
        with contextlib.suppress(StoreUnavailable):
            await set_fact(store, "second")
            kept.append("second")

    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            group.start_soon(give_up)
            await anyio.wait_all_tasks_blocked()
            while store._writes.qsize():  # pyrefly: ignore [missing-attribute]
                await anyio.sleep(0.01)
            group.start_soon(wait_longer)
            await gave_up.wait()
            other.execute("ROLLBACK")
    return bool(kept)


async def test_what_a_failed_unit_set_is_not_remembered_for_its_neighbours(path: Path) -> None:
    async with open_at(path) as store:
        go_on, seen = threading.Event(), list[str | None]()

        def first(tx: Tx) -> None:
            assert go_on.wait(20)
            tx.set_fact("k", "kept")

        def failing(tx: Tx) -> None:
            tx.set_fact("k", "undone")
            raise LookupError

        async def fail() -> None:
            with pytest.raises(LookupError):
                await store.write(failing)

        async def look() -> None:
            seen.append(await store.write(lambda tx: tx.get_fact("k")))

        async with anyio.create_task_group() as group:
            for step in (lambda: store.write(first), fail, look):
                group.start_soon(step)
                await anyio.wait_all_tasks_blocked()
            go_on.set()
        assert seen == ["kept"]


async def test_a_short_lock_is_waited_for(path: Path) -> None:
    async with open_at(path) as store:
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        async with anyio.create_task_group() as group:
            group.start_soon(set_fact, store, "k")
            await anyio.wait_all_tasks_blocked()
            other.execute("COMMIT")
        other.close()
        assert await fact(store, "k") == "v"


async def test_two_processes_write_and_both_are_heard(path: Path) -> None:
    script = """
async def main():
    async with open_store() as store:
        for number in range(100):
            await store.write(lambda tx: tx.set_fact(f"{ARGS[0]} {number}", "v"))
anyio.run(main)
"""
    children = [child(script, path, name) for name in ("a", "b", "c")]
    assert [process.wait(50) for process in children] == [0, 0, 0]
    for process in children:
        output(process)
    assert query(path, "SELECT count(*) FROM facts") == [(300,)]


async def test_a_damaged_store_is_called_damaged(path: Path) -> None:
    async with open_at(path) as store:
        await store.write(lambda tx: [tx.set_fact(f"{number:05}", "v" * 50) for number in range(2000)])
    damaged = bytearray(path.read_bytes())
    damaged[4096 * 10 :] = b"\xff" * (len(damaged) - 4096 * 10)
    path.write_bytes(damaged)
    with pytest.raises(StoreError, match="damaged"):
        async with open_at(path) as store:
            await store.write(lambda tx: [tx.get_fact(f"{number:05}") for number in range(2000)])


async def test_a_path_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreUnavailable, match=r"file/p\.db"):
        async with open_at(tmp_path / "file" / "p.db"):
            pass
    with pytest.raises(StoreUnavailable, match="Is a directory"):
        async with open_at(tmp_path):
            pass
    assert threads() == []


async def test_threads_end_with_the_store(path: Path) -> None:
    async with open_at(path):
        assert len(threads()) == 3
    assert threads() == []


async def test_threads_end_when_the_store_is_cancelled(path: Path) -> None:
    async with anyio.create_task_group() as group:

        async def use() -> None:
            async with open_at(path):
                await anyio.sleep_forever()

        group.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert threads() == []


async def test_opening_may_be_cancelled(path: Path) -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        async with open_at(path):
            pytest.fail("it was cancelled")
    assert threads() == []
    async with open_at(path) as store:
        await store.write(lambda tx: tx.set_fact("k", "v"))


async def test_closing_never_hangs_behind_a_lock(path: Path) -> None:
    refused: list[str] = []

    async def write(store: Store, key: str) -> None:
        try:
            await store.write(lambda tx: tx.set_fact(key, "v"))
        except StoreUnavailable:
            refused.append(key)

    async with open_at(path):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        async with anyio.create_task_group() as group, open_at(path, busy_timeout_s=0.1) as store:
            other.execute("BEGIN IMMEDIATE")
            for key in ("a", "b", "c"):
                group.start_soon(write, store, key)
            await anyio.lowlevel.checkpoint()
    assert sorted(refused) == ["a", "b", "c"] and threads() == []


async def test_a_hook_that_fails_is_heard_and_the_writer_lives(path: Path) -> None:
    troubles = iter([LookupError("hook")])

    def hook() -> None:
        for trouble in troubles:
            raise trouble

    async with open_at(path, on_commit=hook) as store:
        with pytest.raises(LookupError):
            await store.write(lambda tx: tx.set_fact("a", "v"))
        await store.write(lambda tx: tx.set_fact("b", "v"))
        assert await fact(store, "b") == "v"


async def test_a_tampered_audit_log_shows(path: Path) -> None:
    async with open_at(path) as store:
        await store.write(lambda tx: [tx.audit.add(float(n), "ann", f"did {n}") for n in range(5)])

    async def intact_after(*statements: str) -> bool:
        copy = path.with_name("copy.db")
        copy.write_bytes(path.read_bytes())
        change(copy, "DROP TRIGGER audit_never_changes", "DROP TRIGGER audit_never_shrinks", *statements)
        async with open_at(copy) as store:
            return await store.read(lambda tx: tx.audit.verify().intact)

    assert await intact_after()
    for tampering in (
        "UPDATE audit SET who = 'bob' WHERE seq = 3",
        "UPDATE audit SET at = at + 1 WHERE seq = 5",
        "DELETE FROM audit WHERE seq = 3",
        "DELETE FROM audit WHERE seq = 1",
        "DELETE FROM audit WHERE seq = 5",
        "DELETE FROM audit",
    ):
        assert not await intact_after(tampering), tampering


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = x'00'",
        "DELETE FROM events",
        "UPDATE audit SET who = 'bob'",
        "DELETE FROM audit",
        "DELETE FROM inbox",
        "DELETE FROM turns",
        "DELETE FROM asks",
    ],
)
async def test_the_database_itself_refuses_what_must_not_be(path: Path, statement: str) -> None:
    def fill(tx: Tx) -> None:
        add_places(tx)
        put(tx.inbox, "m1")
        tx.turns.add(turn("t1"))
        tx.events.append(C1, TurnId("t1"), [SessionStarted()], 1.0)
        tx.asks.add(ask_row("a1"))
        tx.audit.add(1.0, "ann", "did")

    async with open_at(path) as store:
        await store.write(fill)
    with pytest.raises(sqlite3.IntegrityError):
        change(path, statement)


async def test_the_sockets_of_the_dead_are_removed(path: Path) -> None:
    dead = child(
        """
async def main():
    async with open_store() as store:
        import os
        os._exit(9)
anyio.run(main)
""",
        path,
    )
    assert dead.wait(30) == 9
    output(dead)
    folder = path.with_name("p.db.wake")
    assert len(list(folder.iterdir())) == 1
    async with open_at(path) as store:
        await store.write(lambda tx: tx.set_fact("k", "v"))
        assert len(list(folder.iterdir())) == 1
    assert not folder.exists()


async def test_another_process_wakes_us(path: Path) -> None:
    async with open_at(path) as store:
        changes = store.changes()
        other = child(
            """
async def main():
    async with open_store() as store:
        await store.write(lambda tx: tx.set_fact("from", "afar"))
anyio.run(main)
""",
            path,
        )
        with anyio.fail_after(60):
            while await fact(store, "from") is None:
                await anext(changes)
        output(other)


async def test_a_path_too_long_for_a_socket_still_gives_hints(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 120) / "p.db"
    async with open_at(path) as store, open_at(path) as other:
        changes = other.changes()
        await store.write(lambda tx: tx.set_fact("k", "v"))
        with anyio.fail_after(60):
            await anext(changes)
    assert not path.with_name("p.db.wake").exists()


async def test_without_a_socket_subscribers_are_woken_all_the_same(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(path.name + ".wake").write_text("no folder, so no socket")
    async with open_at(path) as store, open_at(path) as other:
        changes = other.changes(of_others=True)
        await store.write(lambda tx: tx.set_fact("k", "v"))
        with anyio.fail_after(60):
            await anext(changes)
            await anext(changes)
