"""Clients that were written for other agents hold a conversation with `pilothouse acp`: acpx, and our own ACP engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.channels.acp.client_rig import SCRIPT, write_home
from tests.dists import SRC
from tests.engines.acp.rig import Scripted, session_of
from tests.engines.codex.rig import answer_with, end_of, read
from tests.engines.npm_program import NpmProgram

from pilothouse.core.ask import Decision
from pilothouse.engines.acp.agents import Agent

ACPX = NpmProgram(
    "acpx",
    "0.15.1",
    Path(__file__).parent / "npm" / "acpx",
    "acpx/dist/cli.js",
    "node-linux-*/bin/node",
)
AGENT = [sys.executable, "-m", "pilothouse", "acp"]


def environment(home: Path) -> dict[str, str]:
    return {
        "PYTHONPATH": str(SRC),
        "HOME": str(home),
        "PILOTHOUSE_HOME": str(home),
        "PATH": os.environ["PATH"],
    }


@pytest.mark.parametrize(("flag", "end"), [("--approve-all", "Done."), ("--deny-all", "cancelled")])
def test_acpx_holds_a_conversation_with_a_permission_in_it(flag: str, end: str, tmp_path: Path) -> None:
    write_home(tmp_path, SCRIPT)
    words = [*ACPX.command, flag, "--cwd", str(tmp_path / "work"), "--agent", " ".join(AGENT)]
    done = subprocess.run(
        [*words, "exec", "approve this"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "[tool] README.md (completed)" in done.stdout and end in done.stdout, done.stderr
    assert ("pushed" in done.stdout) is (flag == "--approve-all")


@pytest.mark.anyio
async def test_our_own_engine_for_acp_agents_can_drive_it(tmp_path: Path) -> None:
    write_home(tmp_path, SCRIPT)
    # Without the marks of an engine: a command of ours refuses to run for an agent.
    command = ["env", "-i", *(f"{name}={value}" for name, value in environment(tmp_path).items()), *AGENT]
    scripted = Scripted(tmp_path, agent=Agent("Pilothouse"), command=command)
    async with session_of(scripted, trusted=True, approval_mode="full-access") as session:
        end = end_of(await read(session, "approve this", answer_with(session, Decision("allow"))))
        assert end.outcome == "completed" and end.answer.endswith("Done.")
        assert end.usage is not None and end.usage.cost_usd == 0.5 and end.usage.context_window == 200_000
        form = await read(session, "colour", answer_with(session, Decision("answer", ("1",))))
        assert "it is" in end_of(form).answer
    async with session_of(scripted, trusted=True, approval_mode="full-access", resume=end.resume) as again:
        assert "heard: hello" in end_of(await read(again, "hello")).answer
