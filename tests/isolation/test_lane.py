"""A program in the worktree of a lane, which lies among our own hidden folders while its repository lies elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.isolation.canary import Stage, need_jail, no_log
from tests.isolation.test_jail import output, start

from pilothouse.core.isolation import Isolation
from pilothouse.core.lane import NewLane
from pilothouse.isolation.jail import Jails, Places
from pilothouse.lanes.operations import Lanes, worktrees_in
from pilothouse.processes import Launcher, SpawnFailed

pytestmark = pytest.mark.anyio
GIT = "git -c user.name=a -c user.email=a@example.org"


async def test_an_agent_commits_in_a_jailed_lane_and_sees_nothing_else_of_ours(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    data = stage.store.parent
    places = Places(str(tmp_path / "jails"), (str(data), str(stage.store)), str(stage.home))
    jails = Jails(lambda workspace: Isolation("jail"), places, no_log, lanes=str(worktrees_in(data)))
    await output(Launcher(), start(stage, f"{GIT} commit -q --allow-empty -m first"))
    lanes = Lanes(data)
    ours, other = [
        await lanes.add(NewLane(task=task, folder=str(stage.workspace), backend="chat")) for task in "ab"
    ]
    Path(other.worktree, "notes.txt").write_text("of another lane")
    script = (
        f"echo x > new; git add new; {GIT} commit -q -m second; git log --format=%s -2; "
        f"cat {stage.store} {other.worktree}/notes.txt {data}/lanes/*; echo x > {other.worktree}/new"
    )
    place = os.path.realpath(ours.worktree)
    told = await output(Launcher(jails.open), start(stage, script, cwd=place, workspace=place))
    assert told.split()[:2] == ["second", "first"]
    assert "the store" not in told and "of another lane" not in told and ours.branch not in told
    assert not Path(other.worktree, "new").exists()
    log = await output(Launcher(), start(stage, f"git log --format=%s {ours.branch}"))
    assert log.split() == ["second", "first"]
    with pytest.raises(SpawnFailed, match="own folders"):
        await output(Launcher(jails.open), start(stage, "true", workspace=str(worktrees_in(data))))
