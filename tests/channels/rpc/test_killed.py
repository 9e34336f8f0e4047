"""A client that reconnects after a kill misses nothing and sees nothing twice. `bench/rpc crash` kills after every frame."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.rpc.killed_client import kill_after
from tests.channels.rpc.rules import rule


@rule("R12")
@pytest.mark.parametrize("frames", [1, 4, 11, 14])
def test_a_killed_run_is_replayed_without_a_gap_and_the_next_one_works(frames: int, tmp_path: Path) -> None:
    assert kill_after(tmp_path, frames) == []
