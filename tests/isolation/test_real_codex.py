"""The canaries go through the real Codex, whose app-server serves one jailed workspace alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engines.codex.api import open_api, say, shell
from tests.engines.codex.binary import VERSION, codex_binary
from tests.engines.codex.rig import Rig, end_of, read
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
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.engine import CodexEngine

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FULL: dict[str, Any] = {"approval_mode": "full-access"}


@pytest.mark.parametrize("network", NETWORKS)
async def test_nothing_that_codex_runs_reaches_beyond_its_jail_and_a_session_goes_on(
    stage: Stage, tmp_path: Path, network: Network
) -> None:
    need_limits()
    script = stage.script(*reaches(network), "settings 'echo x >> $CODEX_HOME/config.toml'")
    with open_api(shell(script), say("done"), say("again")) as api:
        rig = Rig(tmp_path, api)
        made = jails(stage, tmp_path, network=network)
        host = msgspec.structs.replace(
            holding_key(rig.host(), "SCRIPTED_KEY"), jail=made.open, isolation=made.isolation
        )
        async with CodexEngine(CodexConfig(command=str(codex_binary())), host) as engine:
            async with engine.open(rig.brief(**FULL)) as session:
                end = end_of(await read(session))
                assert end.answer == "done"
            async with engine.open(rig.brief(resume=end.resume, **FULL)) as session:
                assert end_of(await read(session)).answer == "again"
            assert len(await engine.sessions(str(rig.workspace))) == 1
        assert {one.headers["authorization"] for one in api.requests} == {f"Bearer {MODEL_KEY}"}
        told = str([one.body for one in api.requests])
    found = stage.verdicts(told)
    check_table("codex", VERSION, network, found)
    assert found == expected(network, "settings")
    assert (rig.workspace / "written.txt").exists()
    assert not list((rig.home / ".codex").glob("sessions/*"))
    assert files_with_key(tmp_path) == []
    assert rig.leftovers() == []
