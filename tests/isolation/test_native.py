"""The canaries go through the shell tool of the native agent, whose other tools run in Pilothouse itself."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.engines.native.model import Call, Reply, in_order, open_model
from tests.engines.native.rig import Rig
from tests.isolation.canary import NETWORKS, Stage, check_table, expected, jails, need_limits, reaches

from pilothouse.core.event import TurnEnded
from pilothouse.core.isolation import Network

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("network", NETWORKS)
async def test_no_command_of_the_native_agent_reaches_beyond_its_jail(
    tmp_path: Path, network: Network
) -> None:
    need_limits()
    stage = Stage(tmp_path, workspace=tmp_path / "workspace")
    (stage.workspace / "canary.sh").write_text(stage.script(*reaches(network)))
    call = Call("bash", {"command": "bash canary.sh > told.txt 2>&1"})
    try:
        with open_model(in_order(Reply(calls=[call]), Reply("done"))) as model:
            rig = Rig(tmp_path, model)
            made = jails(stage, tmp_path, network=network)
            rig.host = msgspec.structs.replace(rig.host, jail=made.open, isolation=made.isolation)
            *_, end = await rig.turn()
        found = stage.verdicts((stage.workspace / "told.txt").read_text())
    finally:
        stage.close()
    assert isinstance(end, TurnEnded)
    assert end.answer == "done"
    check_table("native", "", network, found)
    assert found == expected(network)
    assert rig.leftovers() == []
