"""Waiting updates are on the disk until they are taken; the file and the queue have bounds."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pilothouse.channels.telegram.updates import MOST, REWRITE_AFTER, UpdateJournal
from pilothouse.channels.telegram.wire import Arrived

pytestmark = pytest.mark.anyio


def make(folder: Path) -> UpdateJournal:
    def log(event: str, /, **fields: Any) -> None:
        raise AssertionError(event)

    return UpdateJournal(folder, log)


def raws(numbers: Iterable[int]) -> dict[int, bytes]:
    return {number: b'{"update_id":%d}' % number for number in numbers}


async def read(folder: Path) -> list[int]:
    found = await make(folder).read()
    return [one.update.update_id for one in found if isinstance(one, Arrived)]


async def test_what_was_not_taken_is_read_again_and_what_was_leaves_no_file(tmp_path: Path) -> None:
    journal = make(tmp_path)
    await journal.keep(raws([2, 1]))
    await journal.keep(raws([3]))
    await journal.drop([2])
    assert [number in journal for number in (1, 2, 3)] == [True, False, True]
    assert await read(tmp_path) == [1, 2, 3], "what was taken comes again as a duplicate"
    await journal.drop([1, 3])
    assert list(tmp_path.iterdir()) == []
    await journal.keep(raws([4]))
    assert await read(tmp_path) == [4]


async def test_one_that_hangs_does_not_let_the_file_grow_for_ever(tmp_path: Path) -> None:
    journal = make(tmp_path)
    await journal.keep(raws([1]))
    for first in range(10, 10 + 4 * REWRITE_AFTER, REWRITE_AFTER):
        numbers = range(first, first + REWRITE_AFTER)
        await journal.keep(raws(numbers))
        await journal.drop(numbers)
    await journal.keep(raws([2]))
    assert 1 in journal
    found = await read(tmp_path)
    assert found[0] == 1
    assert found[-1] == 2
    assert len(found) <= 2 * REWRITE_AFTER + 2


async def test_what_is_beyond_the_bound_is_left_at_telegrams(tmp_path: Path) -> None:
    journal = make(tmp_path)
    await journal.keep(raws(range(MOST + 5, 0, -1)))
    assert MOST in journal
    assert MOST + 1 not in journal
    await journal.drop([1])
    await journal.keep(raws([MOST + 1]))
    assert MOST + 1 in journal
