"""Programs of other people: the one in docs/engines/script.md works as printed, and broken ones are told apart."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.engines.script.rig import Rig, read

import pilothouse
from pilothouse.core.engine import Interruptible
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent, TextDelta, TurnEnded
from pilothouse.core.turn import Prompt
from pilothouse.engines.script import ENGINE
from pilothouse.engines.script.config import ScriptConfig

ROOT = Path(pilothouse.__file__).parents[2]
HELLO = '{"type": "hello", "protocol": 1, "capabilities": {}}'


def python(rig: Rig, source: str) -> list[str]:
    path = rig.folder / "stranger.py"
    path.write_text(source)
    return [sys.executable, "-S", "-u", str(path)]


def documented_program() -> str:
    code = re.search(
        r"```python\n(import json.*?)```", (ROOT / "docs/engines/script.md").read_text(), re.DOTALL
    )
    assert code is not None
    return code[1]


def end_of(events: list[EngineEvent]) -> TurnEnded:
    end = events[-1]
    assert isinstance(end, TurnEnded)
    return end


@pytest.mark.anyio
async def test_the_program_in_the_documentation_is_an_engine(rig: Rig) -> None:
    async with rig.engine(command=python(rig, documented_program())) as engine:
        async with engine.open(rig.brief("one")) as session, engine.open(rig.brief("two")) as other:
            assert end_of(await read(session, "Hello There")).answer == "hello there"
            assert end_of(await read(other, "AGAIN")).answer == "again"
            assert isinstance(session, Interruptible)
            stop = session.interrupt
            stopped = await read(
                session, "many words " * 1000, lambda event: stop() if isinstance(event, TextDelta) else None
            )
            assert end_of(stopped).outcome == "cancelled"
            assert await session.steer(Prompt("no")) is False
        assert len(rig.pids()) == 1


@pytest.mark.anyio
async def test_a_program_that_serves_one_session_gets_a_process_for_each(rig: Rig) -> None:
    single = documented_program().replace('"parallel": True', '"parallel": False')
    async with rig.engine(command=python(rig, single)) as engine:
        async with engine.open(rig.brief("one")) as one, engine.open(rig.brief("two")) as two:
            assert len(rig.pids()) == 2
            assert [end_of(await read(session, "A")).answer for session in (one, two)] == ["a", "a"]
        assert rig.pids() == []


@pytest.mark.parametrize(
    ("source", "kind", "words", "open_s"),
    [
        ("import no_such_module", "crash", "exit code 1", 20.0),
        ("import time; time.sleep(600)", "hang", "did not answer its start within", 1.0),
        (f"print('{HELLO}'); import time; time.sleep(600)", "hang", "did not open the session within", 4.0),
        (f"print('{HELLO}'); input(); raise SystemExit(4)", "crash", "exit code 4", 20.0),
        (
            'print(\'{"type": "hello", "protocol": 9, "name": "new"}\'); input()',
            "bad_request",
            "speaks protocol 9",
            20.0,
        ),
        ("import os; os.close(1); import time; time.sleep(600)", "crash", "signal 15", 20.0),
    ],
)
@pytest.mark.anyio
async def test_a_program_that_does_not_keep_the_protocol_is_told_apart(
    rig: Rig, source: str, kind: str, words: str, open_s: float
) -> None:
    async with rig.engine(command=python(rig, source), open_s=open_s, stop_grace_s=2.0) as engine:
        with anyio.fail_after(60), pytest.raises(EngineError, match=words) as caught:
            async with engine.open(rig.brief()):
                pass
        assert caught.value.failure.kind == kind
        assert rig.pids() == []


@pytest.mark.anyio
async def test_a_program_that_is_not_there_is_named(rig: Rig) -> None:
    async with rig.engine(command=["no-such-program"]) as engine:
        with pytest.raises(EngineError, match="no-such-program") as caught:
            async with engine.open(rig.brief()):
                pass
    assert caught.value.failure.kind == "bad_request"


@pytest.mark.anyio
async def test_a_variable_that_nobody_named_is_not_seen(rig: Rig) -> None:
    spy = documented_program().replace("text.split(), thr", "sorted(__import__('os').environ), thr")
    async with rig.engine(command=python(rig, spy)) as engine, engine.open(rig.brief()) as session:
        seen = end_of(await read(session)).answer
    assert "pilothouse_node" in seen.split()
    assert "pytest_current_test" not in seen


def test_a_look_at_the_machine_names_what_is_wrong(tmp_path: Path) -> None:
    assert ENGINE.probe(ScriptConfig()).available
    assert ENGINE.probe(ScriptConfig(command=[sys.executable])).available
    assert not ENGINE.probe(ScriptConfig(command=["no-such-program"])).available
    missing = ENGINE.probe(ScriptConfig(script=str(tmp_path / "none.toml")))
    assert not missing.available
    assert "there is no such file" in missing.problem
    assert missing.fix


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("pilothouse.engines.script.player", {"msgspec", "asyncio", "anyio", "pilothouse.core.engine"}),
        ("pilothouse.engines.script.spec", {"anyio", "asyncio", "pilothouse.processes"}),
    ],
)
def test_what_must_start_fast_imports_little(module: str, forbidden: set[str]) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    environment = {"PYTHONPATH": str(Path(pilothouse.__file__).parents[1])}
    loaded = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert forbidden & set(loaded.stdout.split()) == set()
