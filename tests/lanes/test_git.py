"""The git of lanes, which runs outside of every jail, in folders that an agent can write."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.lanes.repository import git, make_repository

from pilothouse.lanes.lane import LaneError
from pilothouse.lanes.operations import Lanes, NewLane

pytestmark = pytest.mark.anyio


async def test_closing_a_lane_runs_no_program_that_its_agent_put_there(
    tmp_path: Path,
) -> None:
    lanes, repository = Lanes(tmp_path / "data"), make_repository(tmp_path / "repo")
    lane = await lanes.add(NewLane(task="Fix it", folder=str(repository), backend="chat"))
    nested, filters = Path(lane.worktree, "sub"), Path(tmp_path, "evil")
    filters.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    filters.chmod(0o755)
    make_repository(nested)
    Path(nested, ".gitattributes").write_text("* filter=x\n")
    git(nested, "config", "filter.x.clean", str(filters))
    git(nested.parent, "add", "sub")
    Path(nested, "a.txt").write_text("b")
    (tmp_path / "ran").unlink(missing_ok=True)
    with pytest.raises(LaneError, match=r"submodules.* Look yourself"):
        await lanes.close(lane.id)
    await lanes.collect(idle_s=0)
    assert not (tmp_path / "ran").exists()
    git(nested.parent, "status")
    assert (tmp_path / "ran").exists(), "the test shows nothing: git did not run it"
    (tmp_path / "ran").unlink()
    await lanes.close(lane.id, force=True)
    assert not (tmp_path / "ran").exists()
    assert await lanes.all() == []
