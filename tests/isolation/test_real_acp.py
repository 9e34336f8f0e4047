"""The canaries go through the real Gemini CLI and Qwen Code."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.engines.acp.model_api import open_model
from tests.engines.acp.real import PROGRAMS, obedient, real_agent
from tests.engines.acp.test_turns import Always
from tests.engines.codex.rig import answer_with, end_of, read
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

from pilothouse.core.ask import Decision

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
VERSIONS = {"gemini": "0.61.0", "qwen": "0.24.4"}
KEYS = {"gemini": ("GEMINI_API_KEY", "x-goog-api-key"), "qwen": ("OPENAI_API_KEY", "authorization")}
MODELS = {"gemini": "gemini-2.5-pro", "qwen": None}


@pytest.mark.parametrize("name", ["gemini", "qwen"])
async def test_nothing_that_the_agent_runs_reaches_beyond_its_jail(name: str, tmp_path: Path) -> None:
    need_jail()
    PROGRAMS[name].path()
    with open_model(obedient) as api:
        made = real_agent(name, tmp_path / "rig", api, Always("ask"))
        stage = Stage(tmp_path, home=tmp_path / "rig" / "home", workspace=made.workspace)
        made.host = msgspec.structs.replace(
            holding_key(made.host, KEYS[name][0]),
            jail=(shut := jails(stage, tmp_path, network="model")).open,
            isolation=shut.isolation,
        )
        settings = f"settings 'echo {{}} > ~/.{name}/settings.json'"
        (made.workspace / "canary.sh").write_text(stage.script(*REACHES, settings))
        given = json.dumps(
            {"command": "bash canary.sh > told.txt 2>&1", "description": "try", "is_background": False}
        )
        try:
            async with made.engine() as engine, engine.open(made.brief(model=MODELS[name])) as session:
                allow = answer_with(session, Decision("allow"))
                end = end_of(await read(session, f"CALL run_shell_command {given}", allow))
                assert end.outcome == "completed"
            found = stage.verdicts((made.workspace / "told.txt").read_text())
        finally:
            stage.close()
        sent = {one.headers[KEYS[name][1]].removeprefix("Bearer ") for one in api.requests}
        assert sent == {MODEL_KEY}
    check_table(name, VERSIONS[name], found)
    assert found == dict.fromkeys((*NAMES, *REACH_NAMES, "settings"), "held")
    assert files_with_key(tmp_path) == []
    assert made.leftovers() == []
