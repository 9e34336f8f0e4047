"""The client library, the examples of the manual and the exported schemas work against the real program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.channels.rpc.client_rig import write_home
from tests.dists import ROOT, SRC
from tests.docs.rpc_tables import PAGE, with_tables

from pilothouse.channels.rpc.notifications import UiConfirmParams, UiConfirmResult
from pilothouse.channels.rpc.schema import make_schema
from pilothouse.channels.rpc.server import HANDLERS, PARAMS
from pilothouse.client import ClientError, Handlers, open_client

EXAMPLES = ROOT / "docs" / "examples"
ANSWER = "· README.md\n"


def environ(home: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": str(SRC),
        "HOME": str(home),
        "PILOTHOUSE_HOME": str(home),
        "PATH": os.environ["PATH"],
        "PILOTHOUSE": f"{sys.executable} -m pilothouse",
    }


def test_the_tables_of_the_manual_are_those_of_the_types() -> None:
    assert with_tables(PAGE.read_text()) == PAGE.read_text(), "run tools/golden"


def test_every_request_has_a_handler_and_a_schema() -> None:
    assert set(HANDLERS) | {"initialize"} == set(PARAMS)
    schema = json.loads(json.dumps(make_schema()))
    assert set(schema["requests"]) == set(PARAMS)
    refs = json.dumps(schema).split('"#/$defs/')[1:]
    assert {ref.partition('"')[0] for ref in refs} <= set(schema["$defs"])


def test_the_client_library_loads_no_more_than_msgspec() -> None:
    code = (
        "import sys; own = set(sys.modules); import pilothouse.client; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - own if '.' not in name})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SRC)},
        capture_output=True,
        text=True,
        check=True,
    )
    foreign = set(done.stdout.split()) - set(sys.stdlib_module_names)
    assert foreign <= {"pilothouse", "msgspec", "typing_extensions"}


@pytest.mark.parametrize("name", ["rpc_client.py", "rpc_client.mjs"])
@pytest.mark.parametrize("said", ["y", "n"])
def test_an_example_holds_a_conversation_with_an_approval(said: str, name: str, tmp_path: Path) -> None:
    program = sys.executable if name.endswith(".py") else shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    write_home(tmp_path)
    command = [program, str(EXAMPLES / name), str(tmp_path / "work"), "approve this"]
    done = subprocess.run(
        command, env=environ(tmp_path), input=f"{said}\n", capture_output=True, text=True, check=False
    )
    assert ANSWER in done.stdout and "git push" in done.stdout
    assert done.returncode == (said == "n"), done.stderr
    assert done.stdout.endswith("Done.\n") is (said == "y")


@pytest.mark.anyio
async def test_the_library_runs_answers_cancels_and_replays(tmp_path: Path) -> None:
    write_home(tmp_path)
    asked: list[str] = []

    async def confirm(params: UiConfirmParams) -> UiConfirmResult:
        asked.append(params.title)
        return UiConfirmResult(ok=True)

    async with open_client(
        workspace=str(tmp_path / "work"), handlers=Handlers(confirm=confirm), environment=environ(tmp_path)
    ) as client:
        run = await client.start("approve this")
        events = [event async for event in run]
        assert (run.status, run.answer) == ("completed", "Done.") and len(asked) == 1
        slow = await client.start("wait", session_id=run.session_id)
        async for _ in slow:
            await slow.cancel()
            break
        await slow.wait()
        assert slow.status == "cancelled"
        replayed, told = await client.history(run.session_id)
        assert [one.event for one in replayed if one.run_id == run.id and one.seq >= 0] == events
        assert [state.status for state in told.run_states] == ["completed", "cancelled"]
        assert [row.session_id for row in await client.sessions()] == [run.session_id]
        with pytest.raises(ClientError) as error:
            await client.call("auth.logout")
        assert error.value.code == -32007
