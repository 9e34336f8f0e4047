"""An independent server judges what we send: aimock, strict, which reads the requests of three APIs by its own code."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Reply
from tests.engines.native.rig import ask, end_of
from tests.engines.npm_program import NpmPackages

from pilothouse.core.event import ToolFinished
from pilothouse.testing.engine import resumed

pytestmark = pytest.mark.anyio
AIMOCK = NpmPackages("aimock", "1.43.0", Path(__file__).parent / "npm")
FIXTURES = {
    "fixtures": [
        {
            "match": {"userMessage": "look", "hasToolResult": False},
            "response": {
                "toolCalls": [
                    {"name": "read", "arguments": {"file_path": "a.txt"}},
                    {"name": "glob", "arguments": {"pattern": "*"}},
                ]
            },
        },
        {"match": {"userMessage": "look", "hasToolResult": True}, "response": {"content": "It says alpha."}},
        {"match": {"userMessage": "again"}, "response": {"content": "Still alpha."}},
    ]
}


@contextmanager
def open_aimock(folder: Path) -> Iterator[str]:
    modules = AIMOCK.path()
    node = next(modules.glob("node-linux-*/bin/node"))
    fixtures = folder / "fixtures.json"
    fixtures.write_text(json.dumps(FIXTURES))
    program = modules / "@copilotkit" / "aimock" / "dist" / "cli.js"
    words = [str(node), str(program), "--strict", "--port", "0", "--fixtures", str(fixtures)]
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"]}
    process = subprocess.Popen(
        words, env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if "http://127.0.0.1:" in line:
                yield "http://127.0.0.1:" + line.split("http://127.0.0.1:")[1].split()[0].strip("/")
                break
        else:
            pytest.fail("aimock did not start")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with open_aimock(tmp_path_factory.mktemp("aimock")) as url:
        yield url


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openrouter", "compatible"])
async def test_a_strict_server_that_others_wrote_accepts_every_request(
    make_rig: MakeRig, aimock: str, provider: str
) -> None:
    rig = make_rig(Reply("unused"), provider=provider)
    (rig.workspace / "a.txt").write_text("alpha\n")
    base = aimock if provider == "anthropic" else f"{aimock}/v1"
    async with rig.engine(base_url=base, max_retries=0) as engine:
        async with engine.open(rig.brief()) as session:
            events = await ask(session, "look")
        assert end_of(events).answer.endswith("It says alpha."), end_of(events)
        assert [event.ok for event in events if isinstance(event, ToolFinished)] == [True, True]
        async with engine.open(resumed(rig.brief("two"), end_of(events).resume)) as session:
            assert end_of(await ask(session, "again")).answer == "Still alpha."
    assert rig.model.requests == []
