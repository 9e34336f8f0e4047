"""`kill -9` at any moment, a full disk, a disk that may not be written: what was acknowledged is there."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.stores.sqlite_cases import child, open_at, output, query

pytestmark = pytest.mark.anyio

WRITE_FOR_EVER = """
async def write(store, name):
    number = 0
    while True:
        number += 1
        await store.write(lambda tx: put(tx.inbox, f"{name}-{number}"))
        print(f"{name}-{number}", flush=True)

async def main():
    async with open_store() as store:
        await store.write(add_places)
        async with anyio.create_task_group() as group:
            for name in "abcdefgh":
                group.start_soon(write, store, name)
anyio.run(main)
"""

DIE_AFTER_COMMIT = """
import itertools
count = itertools.count(1)
def die():
    if next(count) == int(ARGS[0]):
        os._exit(9)

async def main():
    async with open_store(on_commit=die) as store:
        await join(store)
        await store.write(add_places)
        await store.write(lambda tx: put(tx.inbox, "m1"))
        print("put", flush=True)
        await store.write(lambda tx: tx.inbox.claim([MessageId("m1")]))
        await store.write(lambda tx: tx.inbox.done(MessageId("m1"), 2.0))
        print("done", flush=True)
anyio.run(main)
"""

KEEP_FILES = """
async def main():
    def unit(tx):
        tx.blobs.put(b"x" * 300_000, "text/plain", 1.0)
        os._exit(9)
    async with open_store() as store:
        await store.write(unit)
anyio.run(main)
"""

FILL_UP = """
import resource
from pilothouse.core.errors import StoreUnavailable

async def main():
    async with open_store() as store:
        await store.write(add_places)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(ARGS[0]), resource.RLIM_INFINITY))
        number = 0
        try:
            while True:
                number += 1
                await store.write(lambda tx: put(tx.inbox, f"m{number}", body=b'"' + b"x" * 20_000 + b'"'))
                print(f"m{number}", flush=True)
        except StoreUnavailable as error:
            print("told:", error, flush=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.write(lambda tx: put(tx.inbox, "after"))
        print("after", flush=True)
anyio.run(main)
"""

READ_ONLY = """
from pilothouse.core.errors import StoreUnavailable

async def main():
    async with STORE.open(SqliteConfig(path=ARGS[0])):
        pass  # everything is loaded now: what is root's may be out of reach in a moment
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    try:
        async with open_store() as store:
            await store.write(lambda tx: tx.set_fact("k", "v"))
    except StoreUnavailable as error:
        print("told:", error)
anyio.run(main)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "p.db"


def check(path: Path) -> set[str]:
    """The store is whole; what it holds."""
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    return {row[0] for row in query(path, "SELECT id FROM inbox")}


@pytest.mark.parametrize("lines", [1, 40, 200])
async def test_every_acknowledged_write_survives_a_kill(path: Path, lines: int) -> None:
    process = child(WRITE_FOR_EVER, path)
    assert process.stdout is not None
    told = [process.stdout.readline().strip() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    told += output(process).splitlines()
    assert process.returncode == -signal.SIGKILL
    stored = check(path)
    assert set(told[:-1]) <= stored, "the last line may be cut in two"
    async with open_at(path) as store:
        await store.write(lambda tx: tx.set_fact("k", "v"))


@pytest.mark.parametrize(
    ("step", "told", "status"),
    [
        (3, [], "queued"),
        (4, ["put"], "claimed"),
        (5, ["put"], "done"),
    ],
)
async def test_a_death_right_after_a_commit_loses_it_not_and_tells_it_not(
    path: Path, step: int, told: list[str], status: str
) -> None:
    process = child(DIE_AFTER_COMMIT, path, str(step))
    assert output(process).split() == told
    assert process.returncode == 9
    assert query(path, "SELECT status FROM inbox") == [(status,)]


async def test_a_file_whose_row_never_came_is_swept(path: Path) -> None:
    process = child(KEEP_FILES, path)
    output(process)
    assert process.returncode == 9
    folder = path.with_name("p.db.blobs")
    assert len([file for file in folder.rglob("*") if file.is_file()]) == 2
    async with open_at(path):
        assert [file for file in folder.rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("limit", [200_000, 1_000_000, 3_000_000])
async def test_a_full_disk_is_told_and_nothing_is_lost(path: Path, limit: int) -> None:
    process = child(FILL_UP, path, str(limit))
    told = output(process).splitlines()
    assert process.returncode == 0
    assert any(line.startswith("told: ") and str(path) in line for line in told)
    acknowledged = {line for line in told if not line.startswith("told: ")}
    assert "after" in acknowledged and check(path) == acknowledged


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that an unprivileged child may look into, wherever the temporary files of the tests are."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


async def test_a_read_only_store_is_told(open_folder: Path, tmp_path: Path) -> None:
    path = open_folder / "p.db"
    async with open_at(path):
        pass
    path.chmod(0o444)
    open_folder.chmod(0o555)
    told = output(child(READ_ONLY, path, str(tmp_path / "first.db")))
    open_folder.chmod(0o755)
    assert told.startswith("told: ") and str(path) in told and "write" in told


async def test_a_folder_that_may_not_be_written_is_told(open_folder: Path, tmp_path: Path) -> None:
    path = open_folder / "p.db"
    open_folder.chmod(0o555)
    told = output(child(READ_ONLY, path, str(tmp_path / "first.db")))
    open_folder.chmod(0o755)
    assert told.startswith("told: ") and str(path) in told and "may write" in told
