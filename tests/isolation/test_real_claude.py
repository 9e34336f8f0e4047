"""The canaries go through the real Claude Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engines.claude.api import bash, open_api, say
from tests.engines.claude.binary import VERSION
from tests.engines.claude.rig import Rig, end_of, read
from tests.isolation.canary import (
    MODEL_KEY,
    NETWORKS,
    Stage,
    check_table,
    expected,
    files_with_key,
    holding_key,
    jails,
    need_limits,
    reaches,
)

from pilothouse.core.isolation import Network
from pilothouse.engines.claude.engine import ClaudeEngine

pytestmark = pytest.mark.slow
OWN = (
    "settings 'echo {} > ~/.claude/settings.json'",
    "other_logs 'cat ~/.claude/projects/other/a.jsonl'",
)
FULL: dict[str, Any] = {"approval_mode": "full-access"}


@pytest.mark.parametrize("network", NETWORKS)
async def test_nothing_that_claude_runs_reaches_beyond_its_jail(
    stage: Stage, tmp_path: Path, network: Network
) -> None:
    need_limits()
    with open_api(bash(stage.script(*reaches(network), *OWN)), say("done")) as api:
        rig = Rig(tmp_path, api)
        (rig.home / ".claude" / "projects" / "other").mkdir(parents=True)
        (rig.home / ".claude" / "projects" / "other" / "a.jsonl").write_text("{}")
        (rig.home / ".claude" / "settings.json").write_text("{}")
        made = jails(stage, tmp_path, network=network)
        host = msgspec.structs.replace(
            holding_key(rig.host(), "ANTHROPIC_API_KEY"), jail=made.open, isolation=made.isolation
        )
        async with ClaudeEngine(rig.config(), host) as engine, engine.open(rig.brief(**FULL)) as session:
            assert end_of(await read(session)).answer == "done"
        assert {one.headers["x-api-key"] for one in api.main} == {MODEL_KEY}
        told = str([one.tool_results for one in api.main])
    found = stage.verdicts(told)
    assert found == expected(network, "settings", "other_logs")
    check_table("claude", VERSION, network, found)
    assert (rig.workspace / "written.txt").exists()
    assert files_with_key(tmp_path) == []
    assert rig.leftovers() == []
