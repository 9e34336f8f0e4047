"""A journal has whole lines only: neither a crash nor a full disk spoils what comes after."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from pilothouse.channels.intake_queue import Journal

pytestmark = pytest.mark.anyio

FULL_DISK = """
import pathlib, resource, sys
import anyio
from pilothouse.channels.intake_queue import Journal

async def main():
    journal = Journal(pathlib.Path(sys.argv[1]))
    await journal.add(b'"first"')
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, resource.RLIM_INFINITY))
    try:
        await journal.add(b'"longer than there is room for"')
    except OSError:
        print("refused")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await journal.add(b'"last"')

anyio.run(main)
"""


async def test_what_is_added_after_a_torn_line_is_a_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'"whole"\n"to')
    await Journal(path).add(b'"next"')
    assert (await Journal(path).read())[::2] == [b'"whole"', b'"next"']


async def test_a_disk_that_is_full_leaves_no_half_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with anyio.fail_after(60):
        done = await anyio.run_process([sys.executable, "-c", FULL_DISK, str(path)])
    assert done.stdout == b"refused\n"
    assert await Journal(path).read() == [b'"first"', b'"last"']
