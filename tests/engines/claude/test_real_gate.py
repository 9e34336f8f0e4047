"""The proof of the gate, with the real CLI and with programs that do not keep it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.engines.claude.api import Reply, Request, call, open_api, say
from tests.engines.claude.binary import claude_binary, claude_version
from tests.engines.claude.rig import Rig, end_of, play, read

from pilothouse.core.ask import Decision
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ToolFinished, ToolStarted
from pilothouse.engines.claude.gate_proof import (
    NO_HOOK,
    PROOFS,
    is_proven,
    print_version,
    prove_gate,
    remember_proof,
    try_gate,
)
from pilothouse.processes import Launcher

pytestmark = pytest.mark.slow

PLAIN = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


def program(folder: Path, lines: str) -> str:
    path = folder / "claude"
    path.write_text(f"#!{sys.executable}\nimport json, sys\n{lines}\n")
    path.chmod(0o755)
    return str(path)


async def test_the_real_program_brings_what_reads_and_what_delegates_to_the_gate(tmp_path: Path) -> None:
    """Else the watch over what came by would end it."""

    def script(request: Request) -> Reply:
        done = request.text.count('"tool_result"')
        if "SUBWORK" in request.prompt:
            return say("read") if done else call("Read", file_path=str(tmp_path / "work/a.txt"))
        steps = [
            call("Read", file_path=str(tmp_path / "work/a.txt")),
            call("Glob", pattern="*.txt"),
            call("Grep", pattern="one"),
            call("Agent", description="d", prompt="SUBWORK now", subagent_type="general-purpose"),
            say("done"),
        ]
        return steps[min(done, len(steps) - 1)]

    with open_api(script) as api:
        rig = Rig(tmp_path, api)
        (rig.workspace / "a.txt").write_text("one\n")
        events = await play(rig, decision=Decision("allow"))
    assert (end_of(events).outcome, end_of(events).answer) == ("completed", "done")
    called = [event.call.detail["tool"] for event in events if isinstance(event, ToolStarted)]
    assert set(called) == {"Agent", "Glob", "Grep", "Read"}
    assert all(event.ok for event in events if isinstance(event, ToolFinished))


async def test_a_program_that_never_calls_back_is_no_gate(tmp_path: Path) -> None:
    silent = program(
        tmp_path, 'sys.stdin.readline(); print(json.dumps({"type": "result", "is_error": False}))'
    )
    assert await try_gate(Launcher(), silent, PLAIN, {}) == NO_HOOK


async def test_a_program_that_dies_is_no_gate(tmp_path: Path) -> None:
    problem = await try_gate(
        Launcher(), program(tmp_path, 'sys.exit("error: unknown option --verbose")'), PLAIN, {}
    )
    assert "unknown option" in problem


async def test_without_a_gate_turns_start_in_full_access_only(tmp_path: Path) -> None:
    with open_api(say("never")) as api:
        rig = Rig(tmp_path, api)
        broken = program(tmp_path, 'print(json.dumps({"type": "result", "is_error": False}))')
        async with rig.engine(command=broken) as engine:
            with pytest.raises(EngineError) as caught:
                async with engine.open(rig.brief()):
                    pass
    assert caught.value.failure.kind == "permission"
    assert "doctor" in caught.value.failure.text


async def test_the_gate_of_the_real_program_holds_and_another_under_its_name_is_proven_anew(
    tmp_path: Path,
) -> None:
    """Claude Code replaces itself while the engine runs: the link by which it is found then leads to another file."""
    link = tmp_path / "claude-now"
    link.symlink_to(claude_binary())
    with open_api(say("hello")) as api:
        rig = Rig(tmp_path, api)
        (rig.state / PROOFS).unlink()
        async with rig.engine(command=str(link)) as engine:
            async with engine.open(rig.brief()) as session:
                assert end_of(await read(session)).answer == "hello"
            assert is_proven(rig.state / PROOFS, str(claude_binary()), claude_version()), "it is remembered"
            link.unlink()
            link.symlink_to(program(tmp_path, 'print(json.dumps({"type": "result", "is_error": False}))'))
            with pytest.raises(EngineError) as caught:
                async with engine.open(rig.brief()):
                    pass
    assert NO_HOOK in caught.value.failure.text


async def test_another_version_behind_the_same_file_is_proven_anew(tmp_path: Path) -> None:
    """As behind the shim of a version manager: the file stays, and what it starts is another program."""
    folder = tmp_path / "bin"
    folder.mkdir()
    shim = program(
        folder,
        f"""version = open({str(folder / "chosen")!r}).read()
if "--version" in sys.argv:
    print(version)
elif version == "1.0.0":
    import os
    os.execv({str(claude_binary())!r}, ["claude", *sys.argv[1:]])
else:
    print(json.dumps({{"type": "result", "is_error": False}}))""",
    )
    (folder / "chosen").write_text("1.0.0")
    assert await prove_gate(Launcher(), shim, PLAIN, str(tmp_path), {}) == ""
    assert is_proven(tmp_path / PROOFS, shim, "1.0.0")
    (folder / "chosen").write_text("2.0.0")
    assert await prove_gate(Launcher(), shim, PLAIN, str(tmp_path), {}) == NO_HOOK


async def test_what_tells_no_version_is_proven_at_every_start(tmp_path: Path) -> None:
    silent = program(tmp_path, "")
    remember_proof(tmp_path / PROOFS, silent, "")
    assert await print_version(Launcher(), silent, PLAIN, {}) == ""
    assert not is_proven(tmp_path / PROOFS, silent, "")
