"""A failed event is in a file before anybody is told, and the channel has trouble while that file exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from pilothouse.channels.intake_queue import Failures
from pilothouse.core.errors import Fenced
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


class Desk:
    def __init__(self, folder: Path, clock: FakeClock | None = None) -> None:
        self.path = folder / "inner" / "failed.jsonl"
        self.logged: list[tuple[str, dict[str, Any]]] = []
        self.apologies: list[str] = []
        self.trouble: Exception | None = None
        self.failures = Failures(self.path, "pigeon.letter", clock or FakeClock(), self.log)

    def log(self, event: str, /, **fields: Any) -> None:
        self.logged.append((event, fields))

    async def apologise(self) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.apologies.append(self.path.read_text())

    async def fail(self, *raw: bytes) -> None:
        await self.failures.set_aside(*raw, error=ValueError("oh"), apologise=self.apologise, number=7)


async def test_it_stands_in_the_file_before_anybody_is_told(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    await desk.fail(b'{"n": 1}', b'{"n": 2}')
    assert desk.apologies == ['{"n":1}\n{"n":2}\n']
    ((event, fields),) = desk.logged
    assert (event, fields["number"], fields["kept_in"]) == ("pigeon.letter_failed", 7, str(desk.path))
    assert str(fields["error"]) == "oh"


async def test_it_is_a_trouble_until_its_file_is_gone(tmp_path: Path) -> None:
    desk, later = Desk(tmp_path), Desk(tmp_path)
    assert desk.failures.trouble == ""
    await desk.fail(b'{"n": 1}', b'{"n": 2}')
    assert desk.failures.trouble.startswith("2 of the messages")
    await later.fail(b'{"n": 3}')
    assert later.failures.trouble.startswith("3 of the messages")
    assert "pigeon.letter_failed" in later.failures.trouble
    desk.path.unlink()
    assert later.failures.trouble == ""


async def test_a_disk_that_takes_nothing_is_waited_for(tmp_path: Path) -> None:
    clock = FakeClock()
    desk = Desk(tmp_path, clock)
    (tmp_path / "inner").write_text("no folder")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(desk.fail, b'{"n": 1}')
        with anyio.fail_after(60):
            while not desk.logged:
                await anyio.sleep(0.001)
        assert (desk.logged[0][0], desk.apologies) == ("pigeon.letter_waits", [])
        (tmp_path / "inner").unlink()
        with anyio.fail_after(60):
            while not desk.apologies:
                await clock.advance(1)
                await anyio.sleep(0.001)
    assert desk.path.read_text() == '{"n":1}\n'


async def test_an_apology_that_breaks_costs_nothing_else(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.trouble = ZeroDivisionError("again")
    await desk.fail(b'{"n": 1}')
    assert desk.logged[-1] == ("pigeon.not_told", {"level": "warning", "why": "ZeroDivisionError: again"})


async def test_whoever_was_fenced_says_nothing_more(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.trouble = Fenced("another node took over")
    with pytest.raises(Fenced):
        await desk.fail(b'{"n": 1}')
