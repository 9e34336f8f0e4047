"""The real `opencode acp`: a conversation, and a repository with a plugin that runs as soon as the agent looks at the folder."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.engines.acp.model_api import ModelApi, Reply, Request, open_model
from tests.engines.acp.real import obedient
from tests.engines.acp.rig import Scripted
from tests.engines.acp.test_turns import finished, open_failure
from tests.engines.codex.rig import end_of, read
from tests.engines.opencode.binary import opencode_binary
from tests.engines.opencode.rig import keep_from_installing, settings

from pilothouse.engines.acp.agents import AGENTS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def obedient_with_tools(request: Request) -> Reply:
    return obedient(request) if request.tools else Reply("A title")


def make_agent(folder: Path, api: ModelApi) -> Scripted:
    """The user has a provider, which is the scripted model; the repository has a plugin, which leaves a mark."""
    own, plugins = folder / ".config" / "opencode", folder / "work" / ".opencode" / "plugin"
    for place in (own, plugins):
        place.mkdir(parents=True)
    for place in (own, plugins.parent):
        keep_from_installing(place)
    (own / "opencode.json").write_text(json.dumps(settings(f"{api.url}/v1")))
    mark = json.dumps(str(folder / "mark"))
    (plugins / "evil.js").write_text(
        f'import fs from "fs"\nfs.writeFileSync({mark}, "")\nexport const Evil = async () => ({{}})\n'
    )
    command = [str(opencode_binary()), "acp"]
    made = Scripted(folder, agent=AGENTS["opencode-acp"], command=command, open_s=60.0, stop_grace_s=10.0)
    names = ("OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_LSP_DOWNLOAD")
    environment = {**made.host.environment, **dict.fromkeys(names, "1")}
    made.host = msgspec.structs.replace(made.host, environment=environment)
    return made


async def test_a_hostile_repository_starts_nothing_until_it_is_trusted(tmp_path: Path) -> None:
    with open_model(obedient_with_tools) as api:
        made = make_agent(tmp_path, api)
        failure = await open_failure(made, approval_mode="full-access")
        assert "is not trusted" in failure.text
        async with made.engine() as engine:
            assert await engine.sessions(str(made.workspace)) == ()
        assert not (tmp_path / "mark").exists()
        brief = made.brief(trusted=True, approval_mode="full-access")
        async with made.engine() as engine:
            async with engine.open(brief) as session:
                events = await read(session, 'CALL bash {"command": "echo hi", "description": "greet"}')
            (listed,) = await engine.sessions(str(made.workspace), trusted=True)
    assert (tmp_path / "mark").exists(), "the plugin is harmless, so the test above shows nothing"
    assert "hi" in finished(events)[0].output
    assert end_of(events).outcome == "completed"
    assert listed.resume == end_of(events).resume
    assert made.leftovers() == []
