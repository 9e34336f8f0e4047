"""The real app-server calls every tool of Pilothouse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agent_tools.agent import live_tools
from tests.agent_tools.every_tool import (
    ASKED,
    CALLS,
    answer_question,
    check_effects,
    filled,
    gateway_settings,
    prepare,
)
from tests.engines.codex.api import Reply, Request, Script, open_api, say
from tests.engines.codex.rig import Rig, asks_of, play, read

from pilothouse.core.ask import Decision
from pilothouse.core.event import EngineEvent, ToolFinished

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def calling(tool: str, given: dict[str, Any]) -> Script:
    def script(request: Request) -> Reply:
        arguments = filled(given, request.text)
        return Reply([{"call": tool, "namespace": "mcp__pilothouse", "arguments": arguments}])

    return script


async def test_codex_calls_every_tool_and_each_effect_is_seen(tmp_path: Path) -> None:
    script, events = [calling(tool, given) for tool, given in CALLS], list[EngineEvent]()
    async with live_tools(tmp_path / "gateway", **gateway_settings(tmp_path)) as (gateway, servers):
        prepare(gateway, tmp_path / "gateway")
        with open_api(*script, say("That is all.")) as api:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer_question, gateway)
                events += await play(Rig(tmp_path, api), decision=Decision("allow"), mcp_servers=servers)
        finished = [event for event in events if isinstance(event, ToolFinished)]
        assert not [event.output for event in finished if not event.ok]
        await check_effects(gateway, [event.output for event in finished])
    asked = asks_of(events)
    assert len(asked) == len(ASKED)
    assert all(tool in str(one.ask.call) for one, tool in zip(asked, ASKED, strict=True))


async def test_a_call_may_wait_as_long_as_the_server_says_and_no_longer(tmp_path: Path) -> None:
    """Progress does not extend Codex's limit, so the server names one that is longer than any question waits."""
    silence = {"question": "Anybody?", "timeout": 2}
    outputs: list[str] = []
    async with live_tools(tmp_path / "gateway") as (_, servers):
        own = servers["pilothouse"]
        ask = calling("ask_user_question", silence)
        with open_api(ask, say("Then not."), ask, say("Then not.")) as api:
            rig = Rig(tmp_path, api)
            async with rig.engine() as engine:
                for name, server in (("short", {**own, "timeout": 1000}), ("own", own)):
                    async with engine.open(rig.brief(name, mcp_servers={"pilothouse": server})) as session:
                        outputs += [e.output for e in await read(session) if isinstance(e, ToolFinished)]
    assert "timed out awaiting tools/call after 1" in outputs[0]
    assert outputs[1] == "Nobody answered within 2 s. Go on without an answer, or ask again later."
