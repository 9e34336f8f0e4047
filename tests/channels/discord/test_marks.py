"""Marks of what was read survive a restart; a new channel gets one at once."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from pilothouse.channels.discord.journal import MOST_TAKEN, Marks

pytestmark = pytest.mark.anyio


def silent(event: str, **fields: object) -> None:
    pass


async def test_marks_outlive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    marks = Marks(path, silent)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(marks.keep)
        marks.read_to("1", "100")
        marks.read_to("1", "90")
        marks.read_to("2", "5", direct=True)
        assert marks.take("100")
        assert not marks.take("100")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    again = Marks(path, silent)
    assert (again.get("1"), again.get("2"), again.direct) == ("100", "5", ("2",))
    assert again.is_taken("100")
    again.forget("2")
    assert (again.get("2"), again.direct) == (None, ())


async def test_a_new_channel_is_on_the_disk_once_it_is_settled(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    marks = Marks(path, silent)
    marks.read_to("2", "5", direct=True)
    await marks.settle()
    assert Marks(path, silent).direct == ("2",)


async def test_only_the_latest_messages_are_remembered(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks.json", silent)
    for number in range(MOST_TAKEN + 1):
        marks.take(str(number))
    assert not marks.is_taken("0")
    assert marks.is_taken("1")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"channels": {"1": "x"}}', b'{"channels": 3}'])
async def test_a_file_that_cannot_be_read_is_a_fresh_start(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "marks.json"
    path.write_bytes(data)
    assert Marks(path, silent).get("1") is None


async def test_the_last_arrival_in_a_server_outlives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    marks = Marks(path, silent)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(marks.keep)
        assert marks.arrive("1", "100") is None, "the first visit"
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    again = Marks(path, silent)
    assert again.arrive("1", "200") == "100"
    assert again.arrive("1", "150") == "150", "a clock that was ahead says nothing about the future"


async def test_a_file_of_an_earlier_version_opens(tmp_path: Path) -> None:
    """Version 0.1 also kept the servers whose archived threads it still had to search."""
    path = tmp_path / "marks.json"
    path.write_bytes(
        b'{"channels":{"7":"70","8":"80","9":"90"},"direct":["9"],"taken":["70"],"threads":{"8":["5","7"]},'
        b'"here":{"5":"60"},"away":{"5":"50"},"stays":{"5":"2026-01-01"},"since":1.5}'
    )
    marks = Marks(path, silent)
    assert (marks.get("7"), marks.direct, marks.is_taken("70")) == ("70", ("9",), True)
    assert (marks.threads("5"), marks.arrive("5", "99")) == ({"8": "7"}, "60")
    assert (marks.stay("5"), marks.first_used(9.0)) == ("2026-01-01", 1.5)
