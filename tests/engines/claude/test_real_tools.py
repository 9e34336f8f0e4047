"""The real CLI calls every tool of Pilothouse, in a workspace whose PERMISSIONS.json leaves it nothing but reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.agent_tools.every_tool import (
    ASKED,
    CALLS,
    answer_question,
    check_effects,
    filled,
    gateway_settings,
    prepare,
    until_asked,
)
from tests.engines.claude.api import Reply, Request, Script, call, open_api, say
from tests.engines.claude.rig import command_of
from tests.engines.claude.test_real_house import house
from tests.runtime.rig import Rig

from pilothouse.agent_tools.server import AgentToolServer

pytestmark = pytest.mark.slow

NAME = "mcp__pilothouse__{}"
SILENCE = call(NAME.format("ask_user_question"), question="Anybody?", timeout=4)
IDLE_LIMIT = {"CLAUDE_CODE_MCP_TOOL_IDLE_TIMEOUT": "2000"}


def calling(tool: str, given: dict[str, Any]) -> Script:
    def script(request: Request) -> Reply:
        return Reply([{"tool": NAME.format(tool), "input": filled(given, request.text), "id": ""}])

    return script


async def answer_people(gateway: Rig) -> None:
    """The question stands before the calls that people are asked about."""
    await answer_question(gateway)
    for tool in ASKED:
        ask = await until_asked(gateway, tool)
        assert (await gateway.channel.answer(ask, "allow")).accepted


async def test_claude_calls_every_tool_and_each_effect_is_seen(tmp_path: Path) -> None:
    script = [calling(tool, given) for tool, given in CALLS]
    (tmp_path / "PERMISSIONS.json").write_text('{"tier": "readonly"}')
    settings = {
        **gateway_settings(tmp_path),
        "tools": AgentToolServer(progress_every_s=0.5),
        "settings_dirs": {str(tmp_path.resolve() / "work"): str(tmp_path)},
    }
    with open_api(SILENCE, *script, say("That is all.")) as api:
        async with house(tmp_path, api, settings=settings, more=IDLE_LIMIT) as (gateway, rig):
            prepare(gateway, rig.workspace)
            await gateway.channel.say("go")
            await answer_people(gateway)
            await gateway.until_said("That is all.", 60)
            commands = " ".join(map(command_of, rig.pids()))
            blocks = [one for message in api.main[-1].body["messages"] for one in message["content"]]
            results = [one for one in blocks if isinstance(one, dict) and one.get("type") == "tool_result"]
            failed = [str(result) for result in results[1:] if result.get("is_error")]
            assert not failed
            await check_effects(gateway, [str(result) for result in results[1:]])
    assert "Nobody answered within 4 s" in str(results[0]), "progress keeps the call alive"
    assert "mcp-config" in commands and "Bearer" not in commands, "the secret must not be in a command line"
