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
    NAMES,
    REACH_NAMES,
    REACHES,
    Stage,
    check_table,
    files_with_key,
    holding_key,
    jails,
    need_jail,
)

from pilothouse.engines.claude.engine import ClaudeEngine

pytestmark = pytest.mark.slow
OWN = (
    "settings 'echo {} > ~/.claude/settings.json'",
    "other_logs 'cat ~/.claude/projects/other/a.jsonl'",
)
FULL: dict[str, Any] = {"approval_mode": "full-access"}


async def test_nothing_that_claude_runs_reaches_beyond_its_jail(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    with open_api(bash(stage.script(*REACHES, *OWN)), say("done")) as api:
        rig = Rig(tmp_path, api)
        (rig.home / ".claude" / "projects" / "other").mkdir(parents=True)
        (rig.home / ".claude" / "projects" / "other" / "a.jsonl").write_text("{}")
        (rig.home / ".claude" / "settings.json").write_text("{}")
        made = jails(stage, tmp_path, network="model")
        host = msgspec.structs.replace(
            holding_key(rig.host(), "ANTHROPIC_API_KEY"), jail=made.open, isolation=made.isolation
        )
        async with ClaudeEngine(rig.config(), host) as engine, engine.open(rig.brief(**FULL)) as session:
            assert end_of(await read(session)).answer == "done"
        assert {one.headers["x-api-key"] for one in api.main} == {MODEL_KEY}
        told = str([one.tool_results for one in api.main])
    found = stage.verdicts(told)
    assert found == dict.fromkeys((*NAMES, *REACH_NAMES, "settings", "other_logs"), "held")
    check_table("claude", VERSION, found)
    assert (rig.workspace / "written.txt").exists()
    assert files_with_key(tmp_path) == []
    assert rig.leftovers() == []
