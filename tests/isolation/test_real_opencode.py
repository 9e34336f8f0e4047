"""The canaries go through the real OpenCode, whose server serves one jailed workspace alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engines.codex.api import say
from tests.engines.codex.rig import end_of, read
from tests.engines.opencode.api import open_chat, shell
from tests.engines.opencode.binary import VERSION
from tests.engines.opencode.rig import Rig
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

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FULL: dict[str, Any] = {"approval_mode": "full-access"}


@pytest.mark.parametrize("network", NETWORKS)
async def test_nothing_that_opencode_runs_reaches_beyond_its_jail_and_a_session_goes_on(
    stage: Stage, tmp_path: Path, network: Network
) -> None:
    need_limits()
    script = stage.script(*reaches(network), "settings 'echo {} > ~/.config/opencode/opencode.json'")
    with open_chat(shell(script), say("done"), say("again")) as api:
        rig = JailedRig(tmp_path, api)
        rig.jails = jails(stage, tmp_path, network=network)
        async with rig.engine() as engine:
            async with engine.open(rig.brief(**FULL)) as session:
                end = end_of(await read(session))
                assert end.answer == "done"
            async with engine.open(rig.brief(resume=end.resume, **FULL)) as session:
                assert end_of(await read(session)).answer == "again"
            assert len(await engine.sessions(str(rig.workspace))) == 1
        assert {one.headers["authorization"] for one in api.requests} == {f"Bearer {MODEL_KEY}"}
        told = str([one.body for one in api.requests])
    found = stage.verdicts(told)
    check_table("opencode", VERSION, network, found)
    assert found == expected(network, "settings")
    assert (rig.workspace / "written.txt").exists()
    assert not (rig.home / ".local/share/opencode/opencode.db").exists()
    assert files_with_key(tmp_path) == []
    assert rig.leftovers() == []


class JailedRig(Rig):
    jails: Any

    def host(self, state: str = "") -> Any:  # pyrefly: ignore[missing-override-decorator]
        return msgspec.structs.replace(
            holding_key(super().host(state), "SCRIPTED_KEY"),
            jail=self.jails.open,
            isolation=self.jails.isolation,
        )
