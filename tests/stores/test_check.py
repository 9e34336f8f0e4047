"""The store looks at itself when somebody asks: a doctor must not call a damaged file sound."""

from __future__ import annotations

from pathlib import Path

from pilothouse.core.store import Tx
from pilothouse.stores.sqlite import STORE
from pilothouse.stores.sqlite.link import quick_check


def fill(tx: Tx) -> None:
    for number in range(2000):
        tx.set_fact(f"fact-{number}", "x" * 200)


async def test_a_sound_file_has_nothing_to_say(tmp_path: Path) -> None:
    async with STORE.open(STORE.config(path=str(tmp_path / "p.db"))) as store:
        assert await store.check() == ""


async def test_a_damaged_page_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    async with STORE.open(STORE.config(path=str(path))) as store:
        await store.write(fill)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    assert quick_check(path)
