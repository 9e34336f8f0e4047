"""`backup` and `restore`: one verified file, made while a gateway writes; nothing is lost when it is put in place."""

from __future__ import annotations

import asyncio
import io
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from msgspec.structs import replace
from tests.cli.conftest import House
from tests.cli.test_sqlite import fill
from tests.shelf import DONE, FAILED, T0

from pilothouse.bootstrap.machine import this_node
from pilothouse.core.audit import AuditHead
from pilothouse.core.ids import BlobHash
from pilothouse.core.store import Store, Tx
from pilothouse.processes.procfs import read_process
from pilothouse.stores.sqlite import STORE, SqliteConfig

T = TypeVar("T")
LARGE = b"x" * 400_000


def store(house: House, unit: Callable[[Tx], T]) -> T:
    async def work() -> T:
        async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as opened:
            return await opened.write(unit)

    return asyncio.run(work())


@pytest.fixture
def used(house: House) -> House:
    """A home with a store, an attachment beside it, a token, and files of a channel."""

    def unit(tx: Tx) -> BlobHash:
        fill(tx)
        tx.audit.add(T0, "terminal:ada", "people.granted")
        return tx.blobs.put(LARGE, "image/png", T0)

    house.config.write_text("[gateway]\nbusy = 'queue'\n")
    house.config.chmod(0o600)
    (house.home / ".env").write_text("TELEGRAM_TOKEN=hunter22\n")
    journal = house.home / "state/channels/telegram/journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text("{}\n")
    store(house, unit)
    return house


def turns(house: House) -> set[str]:
    return {turn["id"] for turn in house.json("turns")}


def test_a_backup_brings_everything_back_on_another_machine(used: House, tmp_path: Path) -> None:
    file = tmp_path / "saved.tar.gz"
    done = used.run("backup", str(file))
    assert done.returncode == 0, done.stderr
    assert "tokens, verified." in done.stdout and "hunter22" not in done.stdout
    assert file.stat().st_mode & 0o777 == 0o600
    assert used.run("backup", str(file)).returncode == 1, "it is not overwritten"
    (tmp_path / "other").mkdir()
    other = House(tmp_path / "other")
    restored = other.run("restore", "--yes", str(file))
    assert restored.returncode == 0, restored.stderr
    assert restored.stdout.splitlines()[-1] == "Next: pilothouse doctor"
    assert turns(other) == {DONE.id, FAILED.id}
    assert (other.home / ".env").read_text() == "TELEGRAM_TOKEN=hunter22\n"
    assert other.config.read_text() == "[gateway]\nbusy = 'queue'\n"
    assert (other.home / "state/channels/telegram/journal.jsonl").read_text() == "{}\n"
    assert [path.read_bytes() for path in other.home.rglob("pilothouse.db.blobs/*/*") if path.is_file()] == [
        LARGE
    ]
    assert other.run("audit", "verify").returncode == 0
    assert not list(other.home.glob("replaced-*")) and not list(other.home.glob(".pilothouse-*"))


def test_it_is_whole_while_a_gateway_writes(used: House, tmp_path: Path) -> None:
    """Each write adds two rows that belong together; the copy has both or none."""
    file, path = tmp_path / "saved.tar.gz", used.home / "pilothouse.db"

    async def work() -> int:
        async with STORE.open(SqliteConfig(path=str(path))) as opened:
            writer = asyncio.create_task(_write_for_ever(opened))
            done = await asyncio.to_thread(used.run, "backup", str(file))
            writer.cancel()
            return done.returncode

    assert asyncio.run(work()) == 0
    (tmp_path / "copy").mkdir()
    with tarfile.open(file) as archive:
        data = archive.extractfile("store/pilothouse.db")
        assert data is not None
        (tmp_path / "copy/db").write_bytes(data.read())
    with closing(sqlite3.connect(tmp_path / "copy/db")) as db:
        (rows,) = db.execute("SELECT count(*) FROM audit WHERE what = 'pair'").fetchone()
    assert rows % 2 == 0


async def _write_for_ever(opened: Store) -> None:
    def unit(tx: Tx) -> None:
        tx.audit.add(T0, "a", "pair")
        tx.audit.add(T0, "b", "pair")

    while True:
        await opened.write(unit)


def test_a_restore_keeps_what_it_replaces_and_forgets_newer_heads(used: House, tmp_path: Path) -> None:
    file = tmp_path / "saved.tar.gz"
    used.run("backup", str(file))
    store(used, lambda tx: tx.audit.add(T0, "terminal:ada", "people.revoked"))
    used.config.write_text("[gateway]\nbusy = 'steer'\n")
    done = used.run("restore", str(file), said="n\n")
    assert done.stdout.endswith("Nothing was changed.\n") and "steer" in used.config.read_text()
    assert used.run("restore", str(file), "--yes").returncode == 0
    assert "queue" in used.config.read_text()
    (kept,) = used.home.glob("replaced-*")
    assert "steer" in (kept / "config.toml").read_text() and (kept / "pilothouse.db").exists()
    assert store(used, lambda tx: tx.audit.head().seq) == 1
    assert used.run("audit", "verify").returncode == 0


def test_it_is_refused_while_a_gateway_runs(used: House, tmp_path: Path) -> None:
    file = tmp_path / "saved.tar.gz"
    used.run("backup", str(file))
    with subprocess.Popen(["sleep", "60"]) as other:
        found = read_process(other.pid)
        assert found is not None
        info = replace(this_node("pilothouse up"), pid=other.pid, started=str(found.id.started))
        store(used, lambda tx: tx.nodes.join(info, ["channels"], T0))
        done = used.run("restore", str(file), "--yes")
        other.kill()
    assert done.returncode == 1 and f"pilothouse up is running (pid {other.pid})" in done.stderr
    assert "Nothing was changed" in done.stderr and not list(used.home.glob("replaced-*"))


def test_a_damaged_store_is_not_saved_and_a_damaged_file_is_not_restored(used: House, tmp_path: Path) -> None:
    file = tmp_path / "saved.tar.gz"
    used.run("backup", str(file))
    before = store(used, lambda tx: tx.audit.head())
    broken = bytearray(file.read_bytes())
    broken[len(broken) // 2] ^= 0xFF
    (tmp_path / "broken.tar.gz").write_bytes(broken)
    for name, data in {"foreign.tar.gz": b"no archive", "broken.tar.gz": bytes(broken)}.items():
        (tmp_path / name).write_bytes(data)
        done = used.run("restore", str(tmp_path / name), "--yes")
        assert done.returncode == 1 and "damaged" in done.stderr, done.stderr
    assert store(used, lambda tx: tx.audit.head()) == before != AuditHead()
    with closing(sqlite3.connect(used.home / "pilothouse.db")) as db:
        triggers = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")]
        for name in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE audit SET who = 'terminal:eve'")
        db.commit()
    done = used.run("backup", str(tmp_path / "second.tar.gz"))
    assert done.returncode == 1 and "the audit log was changed" in done.stderr
    assert not (tmp_path / "second.tar.gz").exists() and not list(tmp_path.glob(".pilothouse-*"))


def test_an_archive_that_would_write_elsewhere_is_refused(used: House, tmp_path: Path) -> None:
    file = tmp_path / "evil.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for name in ("store/../../evil", "/etc/evil", "evil"):
            entry = tarfile.TarInfo(name)
            entry.size = 4
            archive.addfile(entry, io.BytesIO(b"evil"))
    done = used.run("restore", str(file), "--yes")
    assert done.returncode == 1 and "unexpected entry" in done.stderr
    assert not list(tmp_path.rglob("evil"))


def test_without_a_store_there_is_nothing_to_save(house: House, tmp_path: Path) -> None:
    done = house.run("backup", str(tmp_path / "saved.tar.gz"))
    assert done.returncode == 1 and "nothing to back up" in done.stderr
    assert house.run("backup", "/no/such/folder/x").returncode == 1
