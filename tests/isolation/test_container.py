"""Programs in real containers: the canaries, what is mounted, limits, the end of the whole tree."""

from __future__ import annotations

import json
import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.engines.claude.api import bash, open_api, say
from tests.engines.claude.rig import Rig as ClaudeRig
from tests.engines.claude.rig import end_of
from tests.engines.claude.rig import read as read_claude
from tests.engines.script.rig import Rig as ScriptRig
from tests.engines.script.rig import read as read_script
from tests.isolation.canary import (
    MODEL_KEY,
    NETWORKS,
    NOT_TESTED,
    REACHES,
    Stage,
    expected,
    files_with_key,
    holding_key,
    jails,
    reaches,
)
from tests.isolation.test_jail import output, start

from pilothouse.core.event import TurnEnded
from pilothouse.core.isolation import Container, Limits, Network
from pilothouse.engines.claude.engine import ClaudeEngine
from pilothouse.engines.script.config import ScriptConfig
from pilothouse.engines.script.engine import ScriptEngine
from pilothouse.isolation.contained import note_container
from pilothouse.isolation.jail import Jails, sweep_scratch
from pilothouse.isolation.runtime import find_runtime
from pilothouse.processes import Launcher, SpawnFailed

WITHIN_S = 60.0
FORKS = "i=0; while [ $i -lt 120 ]; do sleep 30 & i=$((i+1)); done; echo all started"


def need_container() -> None:
    if problem := find_runtime(Container()).problem:
        pytest.skip(NOT_TESTED.format(why=problem).replace("a jail", "a container"))


def containers(stage: Stage, folder: Path, **settings: Any) -> Jails:
    return jails(stage, folder, kind="container", **settings)


def names_of_containers() -> list[str]:
    runtime = find_runtime(Container())
    words = [
        runtime.program,
        "ps",
        "--all",
        "--format",
        "{{.Names}}",
        "--filter",
        f"name=pilothouse-{os.getpid()}-",
    ]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def start_apart(words: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, start_new_session=True)


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Any:
    yield
    if not find_runtime(Container()).problem:
        assert names_of_containers() == []


async def test_nothing_that_a_program_runs_reaches_beyond_its_container(stage: Stage, tmp_path: Path) -> None:
    need_container()
    launcher = Launcher(containers(stage, tmp_path, network="model").open)
    told = await output(launcher, start(stage, stage.script(*REACHES)))
    assert stage.verdicts(told) == expected("model")
    assert (stage.workspace / "written.txt").stat().st_uid == os.getuid()
    assert list((tmp_path / "jails").iterdir()) == []


async def test_the_folders_of_an_agent_are_where_agents_expect_them(stage: Stage, tmp_path: Path) -> None:
    need_container()
    extra, shared, kept = (
        tmp_path / "docs",
        tmp_path / "global",
        stage.workspace / ".pilothouse" / "conversations",
    )
    for folder in (extra, shared, kept):
        folder.mkdir(parents=True)
        (folder / "note.md").write_text(f"of {folder.name}\n")
    (stage.workspace / "CLAUDE.md").write_text("of the workspace\n")
    (stage.workspace / "downloads").mkdir()
    link = tmp_path / "linked"
    link.symlink_to(stage.workspace)
    made = containers(
        stage, tmp_path, allow_read=(str(extra),), container=Container(global_folder=str(shared))
    )
    script = """cd /workspace; cat global/note.md extra/docs/note.md agent/conversations/note.md agent/CLAUDE.md config.json
        echo "provider $AGENT_PROVIDER"; for name in global/x extra/docs/x agent/conversations/x x; do echo > $name && echo WRITTEN $name; done
        echo up > downloads/file && cat "$LINKED/downloads/file"; id -u"""
    environment = {**start(stage, "").environment, "LINKED": str(link), "TZ": "Europe/Berlin"}
    place = {"cwd": str(link), "workspace": str(link), "environment": environment}
    opened = partial(made.open, engine="claude")
    told = await output(Launcher(opened), start(stage, script, **place))
    assert "provider claude\n" in told
    assert "of global\nof docs\nof conversations\nof the workspace" in told
    assert "WRITTEN" not in told
    assert "up" in told.splitlines()
    assert "\n0\n" not in told
    config = json.loads(told[told.index("{") : told.index("\n}") + 2])
    assert (config["engine"], config["workspace"]) == ("claude", str(stage.workspace))
    assert config["extra"] == {"docs": str(extra)}
    assert config["timezone"] == "Europe/Berlin"


async def test_ending_the_client_ends_everything_in_the_container(stage: Stage, tmp_path: Path) -> None:
    need_container()
    script = (
        f"(setsid sleep {stage.nap} &) ; (setsid setsid sleep {stage.nap} &); echo ready; sleep {stage.nap}"
    )
    async with Launcher(containers(stage, tmp_path).open).open(start(stage, script)) as process:
        async for line in process.lines():
            assert line.data == b"ready"
            break
        os.kill(process.pid, 9)
        await process.wait()
    assert stage.verdicts("")["setsid"] == "held"


async def test_a_container_of_a_killed_gateway_is_removed(stage: Stage, tmp_path: Path) -> None:
    need_container()
    made, leftover = containers(stage, tmp_path), tmp_path / "jails" / "999999999-aa"
    leftover.mkdir(parents=True)
    runtime = find_runtime(Container())
    note_container(leftover, [runtime.program, *runtime.options])
    script = f"echo ready; sleep {stage.nap}"
    async with made.open(start(stage, script)) as jailed:
        words = [word.replace(f"pilothouse-{os.getpid()}", "pilothouse-999999999") for word in jailed.argv]
        words[words.index("--name") + 1] = "pilothouse-999999999-aa"
        left = start_apart(words, dict(jailed.environment))
        assert left.stdout is not None
        assert await anyio.to_thread.run_sync(left.stdout.readline) == b"ready\n"
        left.kill()
        await anyio.to_thread.run_sync(partial(sweep_scratch, made.places.scratch))
        left.wait()
        left.stdout.close()
        assert stage.verdicts("")["setsid"] == "held"
    assert not leftover.exists()


async def test_a_container_starts_no_more_processes_than_it_may(stage: Stage, tmp_path: Path) -> None:
    need_container()
    made = containers(stage, tmp_path, limits=Limits(processes=40))
    held = await output(Launcher(made.open), start(stage, "", argv=["sh", "-c", FORKS]))
    assert "all started" not in held
    assert "fork" in held


async def test_bad_workspaces_and_images_get_a_clear_refusal(stage: Stage, tmp_path: Path) -> None:
    need_container()
    launcher, comma = Launcher(containers(stage, tmp_path).open), tmp_path / "a,b"
    comma.mkdir()
    for folder, words in (
        ("/", "cannot be jailed"),
        (str(stage.home), "holds the home folder"),
        (str(tmp_path / "vanished"), "does not exist"),
        (str(comma), "comma"),
    ):
        with pytest.raises(SpawnFailed, match=words):
            await output(launcher, start(stage, "true", workspace=folder))
    unknown = Launcher(containers(stage, tmp_path, container=Container(image="localhost/no-such:1")).open)
    with pytest.raises(SpawnFailed, match="pull localhost/no-such:1"):
        await output(unknown, start(stage, "true"))
    missing = Launcher(containers(stage, tmp_path, container=Container(rootfs="/no/such")).open)
    with pytest.raises(SpawnFailed, match="/no/such does not exist"):
        await output(missing, start(stage, "true"))


async def test_a_turn_of_the_script_engine_runs_in_a_container(stage: Stage, tmp_path: Path) -> None:
    need_container()
    rig, made = ScriptRig(stage.workspace), containers(stage, tmp_path, network="none")
    script = rig.write([{"say": "from inside"}])
    host = msgspec.structs.replace(rig.host(), jail=made.open, isolation=made.isolation)
    async with (
        ScriptEngine(ScriptConfig(script=str(script), open_s=WITHIN_S), host) as engine,
        engine.open(rig.brief()) as session,
    ):
        (end,) = [one for one in await read_script(session) if isinstance(one, TurnEnded)]
    assert end.answer == "from inside"
    assert rig.pids() == []


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
async def test_nothing_that_claude_runs_reaches_beyond_its_container(
    stage: Stage, tmp_path: Path, network: Network
) -> None:
    need_container()
    with open_api(bash(stage.script(*reaches(network))), say("done")) as api:
        rig = ClaudeRig(tmp_path, api)
        made = containers(stage, tmp_path, network=network)
        host = msgspec.structs.replace(
            holding_key(rig.host(), "ANTHROPIC_API_KEY"), jail=made.open, isolation=made.isolation
        )
        brief = rig.brief(approval_mode="full-access")
        async with ClaudeEngine(rig.config(), host) as engine, engine.open(brief) as session:
            assert end_of(await read_claude(session)).answer == "done"
        told = str([one.tool_results for one in api.main])
        assert {one.headers["x-api-key"] for one in api.main} == {MODEL_KEY}
    assert stage.verdicts(told) == expected(network)
    assert files_with_key(tmp_path) == []
    assert (rig.workspace / "written.txt").exists()
    assert rig.leftovers() == []
