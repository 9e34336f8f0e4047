"""The canaries go through the real Copilot CLI, Gemini CLI and Qwen Code. Copilot has no settings in its own folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engines.acp.model_api import open_model
from tests.engines.acp.real import PROGRAMS, obedient, real_agent
from tests.engines.acp.test_turns import Always
from tests.engines.codex.rig import answer_with, end_of, read
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

from pilothouse.core.ask import Decision
from pilothouse.core.isolation import Network

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
VERSIONS = {"copilot": "1.0.102", "gemini": "0.61.0", "qwen": "0.24.4"}
KEYS = {
    "copilot": ("COPILOT_PROVIDER_API_KEY", "authorization"),
    "gemini": ("GEMINI_API_KEY", "x-goog-api-key"),
    "qwen": ("OPENAI_API_KEY", "authorization"),
}
MODELS = {"gemini": "gemini-2.5-pro"}
TOOLS = {"copilot": "bash"}


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", list(VERSIONS))
async def test_nothing_that_the_agent_runs_reaches_beyond_its_jail(
    name: str, tmp_path: Path, network: Network
) -> None:
    need_limits()
    PROGRAMS[name].path()
    with open_model(obedient) as api:
        made = real_agent(name, tmp_path / "rig", api, Always("ask"))
        stage = Stage(tmp_path, home=tmp_path / "rig" / "home", workspace=made.workspace)
        made.host = msgspec.structs.replace(
            holding_key(made.host, KEYS[name][0]),
            jail=(shut := jails(stage, tmp_path, network=network)).open,
            isolation=shut.isolation,
        )
        own = () if name == "copilot" else (f"settings 'echo {{}} > ~/.{name}/settings.json'",)
        (made.workspace / "canary.sh").write_text(stage.script(*reaches(network), *own))
        given = {"command": "bash canary.sh > told.txt 2>&1", "description": "try"}
        given |= {} if name == "copilot" else {"is_background": False}
        call = f"CALL {TOOLS.get(name, 'run_shell_command')} {json.dumps(given)}"
        mode: dict[str, Any] = {"approval_mode": "full-access"} if name == "copilot" else {}
        try:
            async with (
                made.engine() as engine,
                engine.open(made.brief(model=MODELS.get(name), **mode)) as session,
            ):
                allow = answer_with(session, Decision("allow"))
                end = end_of(await read(session, call, allow))
                assert end.outcome == "completed"
            found = stage.verdicts((made.workspace / "told.txt").read_text())
        finally:
            stage.close()
        sent = {one.headers[KEYS[name][1]].removeprefix("Bearer ") for one in api.requests}
        assert sent == {MODEL_KEY}
    check_table(name, VERSIONS[name], network, found)
    assert found == expected(network, *own)
    assert files_with_key(tmp_path) == []
    assert made.leftovers() == []
