"""The engines' own sandboxes inside a jail. They nest for a normal user, and where bubblewrap may start bubblewrap."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from tests.engines.claude import rig as claude
from tests.engines.claude.api import bash, open_api, say
from tests.engines.codex import api as codex_api
from tests.engines.codex import rig as codex
from tests.engines.codex.binary import codex_binary
from tests.isolation.canary import NOT_TESTED, Stage, jails, need_jail
from tests.isolation.test_jail import output, start

from pilothouse.core.ask import Decision
from pilothouse.core.engine import EngineHost
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.processes import Launcher

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SANDBOX = {"enabled": True, "failIfUnavailable": True, "allowUnsandboxedCommands": False}
LOOK = "grep Seccomp: /proc/self/status; echo x > inside.txt; touch {outside}/outside.txt; true"
FILTERED = "Seccomp:\\t2"


@pytest.fixture
def folder() -> Iterator[Path]:
    """Codex makes no helper programs below the temporary folder, which is /tmp in a jail."""
    with TemporaryDirectory(dir="/var/tmp") as made:
        yield Path(made)


async def need_nesting(stage: Stage, host: EngineHost) -> None:
    need_jail()
    if os.geteuid() == 0:
        pytest.skip(NOT_TESTED.format(why="an engine's own sandbox fails in a jail of root"))
    nested = "bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc true && echo nests"
    if "nests" not in await output(Launcher(host.jail), start(stage, nested)):
        pytest.skip(NOT_TESTED.format(why="this system lets no program in a jail make a jail"))


async def test_claudes_own_sandbox_works_in_a_jail_if_its_settings_turn_it_on(
    stage: Stage, tmp_path: Path, folder: Path
) -> None:
    if not shutil.which("socat"):
        pytest.skip(NOT_TESTED.format(why="Claude's own sandbox needs socat"))
    with open_api(bash(LOOK.replace("{outside}", str(folder))), say("done")) as api:
        rig = claude.Rig(tmp_path, api)
        made = jails(stage, tmp_path, network="model", allow_write=(str(folder),))
        host = msgspec.structs.replace(rig.host(), jail=made.open, isolation=made.isolation)
        await need_nesting(stage, host)
        config = rig.config(extra_args=["--settings", json.dumps({"sandbox": SANDBOX})])
        async with (
            claude.ClaudeEngine(config, host) as engine,
            engine.open(rig.brief(approval_mode="full-access")) as session,
        ):
            assert claude.end_of(await claude.read(session)).answer == "done"
        told = json.dumps([one.tool_results for one in api.main])
    assert FILTERED in told.replace("\\\\", "\\")
    assert (rig.workspace / "inside.txt").exists()
    assert not (folder / "outside.txt").exists(), "the jail allows it, and the sandbox does not"


async def test_codex_runs_an_approved_command_in_its_own_sandbox_in_a_jail(
    stage: Stage, tmp_path: Path, folder: Path
) -> None:
    with codex_api.open_api(codex_api.shell("grep Seccomp: /proc/self/status"), codex_api.say("done")) as api:
        rig = codex.Rig(folder, api)
        made = jails(stage, tmp_path, network="model")
        host = msgspec.structs.replace(rig.host(), jail=made.open, isolation=made.isolation)
        await need_nesting(stage, host)
        async with (
            codex.CodexEngine(CodexConfig(command=str(codex_binary())), host) as engine,
            engine.open(rig.brief()) as session,
        ):
            allow = codex.answer_with(session, Decision("allow"))
            assert codex.end_of(await codex.read(session, "Hello", allow)).answer == "done"
        told = json.dumps([one.body for one in api.requests])
    assert FILTERED in told.replace("\\\\", "\\")
