"""A program that does not know a flag: with the real CLI behind a door that refuses some."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.claude.api import open_api, say
from tests.engines.claude.binary import claude_binary, claude_version
from tests.engines.claude.rig import Rig, end_of, notices_of, read

from pilothouse.core.errors import EngineError
from pilothouse.core.event import TextDelta
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.gate_proof import PROOFS, remember_proof
from pilothouse.engines.claude.old_program import WITHOUT, leave_out, unknown_flag


def refusing(rig: Rig, *flags: str) -> str:
    path = rig.workspace.parent / "claude"
    tests = "\n".join(
        f'[ "$word" = {flag} ] && {{ echo "error: unknown option \'{flag}\'" >&2; exit 1; }}'
        for flag in flags
    )
    path.write_text(f'#!/bin/sh\nfor word do\n{tests}\n:\ndone\nexec {claude_binary()} "$@"\n')
    path.chmod(0o755)
    remember_proof(rig.state / PROOFS, str(path), claude_version())
    return str(path)


def test_a_flag_is_left_out_with_its_value() -> None:
    argv = ["claude", "--include-partial-messages", "--fallback-model", "x", "--model", "y"]
    assert leave_out(argv, ["--fallback-model"]) == ["claude", "--include-partial-messages", "--model", "y"]
    assert leave_out(argv, ["--include-partial-messages"]) == ["claude", *argv[2:]]
    assert leave_out(argv, WITHOUT) == ["claude", "--model", "y"]


def test_the_flag_is_found_in_what_the_program_said() -> None:
    assert unknown_flag(Failure("bad_request", "unknown option '--foo-bar'")) == "--foo-bar"
    assert unknown_flag(Failure("bad_request", "x", detail="error: unknown option --foo\n")) == "--foo"
    assert unknown_flag(Failure("crash", "it died")) == ""


def test_nothing_that_narrows_can_be_left_out() -> None:
    narrow = {"--tools", "--disallowedTools", "--setting-sources", "--strict-mcp-config", "--max-budget-usd"}
    assert not narrow & set(WITHOUT)


@pytest.mark.slow
async def test_what_can_be_missed_is_left_out_and_said_once(tmp_path: Path) -> None:
    with open_api(say("one"), say("two")) as api:
        rig = Rig(tmp_path, api, fallback_model="claude-haiku-5-5")
        program = refusing(rig, "--fallback-model", "--include-partial-messages")
        async with rig.engine(command=program) as engine:
            async with engine.open(rig.brief()) as session:
                first = await read(session)
            async with engine.open(rig.brief(resume=end_of(first).resume)) as session:
                second = await read(session)
    assert (end_of(first).answer, end_of(second).answer) == ("one", "two")
    assert not [event for event in first if isinstance(event, TextDelta)]
    told = "\n".join(notices_of(first))
    assert "fallback_model is off" in told and "block by block" in told
    assert notices_of(second) == []


@pytest.mark.slow
async def test_what_cannot_be_missed_ends_the_turn_with_its_name(tmp_path: Path) -> None:
    with open_api(say("never")) as api:
        rig = Rig(tmp_path, api, max_budget_usd=1.0)
        async with rig.engine(command=refusing(rig, "--max-budget-usd")) as engine:
            with pytest.raises(EngineError) as caught:
                async with engine.open(rig.brief()):
                    pass
        assert api.main == []
    assert "--max-budget-usd" in caught.value.failure.text
    assert "npm install" in caught.value.failure.text
    assert rig.leftovers() == []
