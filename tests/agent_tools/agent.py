"""An agent for tests: calls tools as the puppet's session, in the same process or over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import Rig, open_rig

from pilothouse.agent_tools.server import AgentToolServer
from pilothouse.agent_tools.table import TOOLS
from pilothouse.agent_tools.tool import ToolCall
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import ConversationId, SessionId
from pilothouse.engines.script.tool_call import call_tool
from pilothouse.runtime.agent_calls.caller import CallKeys


class Agent:
    """Calls tools for a session. Every call has an id of its own, unless one is given."""

    def __init__(self, rig: Rig, session_id: SessionId, keys: CallKeys | None = None) -> None:
        self._rig = rig
        self._session_id = session_id
        self._keys = keys or CallKeys()

    async def call(self, tool: str, *, use_id: str = "", **arguments: Any) -> str:
        """Return the result, or what was refused after "refused: "."""
        call = ToolCall(self._rig.ports, self._keys, self._session_id, tool, arguments, use_id)
        try:
            return await TOOLS[tool].call(call)
        except PilothouseError as error:
            return f"refused: {error}"


Scene = Callable[[Agent], Awaitable[None]]
NEW_GROUP: dict[str, Any] = {
    "name": "helpers",
    "folder": "helpers",
    "platformId": "team",
    "channelType": "memory",
}
"""A group that may be registered below a configured root."""


class Stage:
    """An engine whose turns are scenes. What a scene raises fails the test that waits for it."""

    def __init__(self, *scenes: Scene) -> None:
        self.engine = PuppetEngine(*(self._play(scene) for scene in scenes))
        self.rig: Rig | None = None
        self.keys = CallKeys()
        self.errors: list[BaseException] = []

    def _play(self, scene: Scene) -> Callable[[Strings], Awaitable[None]]:
        async def play(strings: Strings) -> None:
            assert self.rig is not None
            await strings.start()
            try:
                await scene(Agent(self.rig, strings.brief.session_id, self.keys))
            except BaseException as error:
                self.errors.append(error)
                raise
            await strings.end("The turn is over.")

        return play

    async def play(self, rig: Rig, *, count: int = 1, text: str = "go", private: bool = True) -> None:
        """Send a message, and wait for the end of its turn."""
        self.rig = rig
        await rig.channel.say(text, private=private)
        await rig.until_ended(count)
        await rig.until_idle()
        assert not self.errors, self.errors


@asynccontextmanager
async def live_places(
    folder: Path, *places: str, **settings: Any
) -> AsyncIterator[tuple[Rig, Mapping[str, Mapping[str, Any]]]]:
    """A gateway in which a turn runs in each of these conversations, and the MCP servers of each session."""
    servers: dict[str, Mapping[str, Any]] = {}

    async def play(strings: Strings) -> None:
        await strings.start()
        servers[strings.prompt.text] = strings.brief.mcp_servers
        await strings.interrupted.wait()
        await strings.end()

    folder.mkdir()
    async with open_rig(folder, PuppetEngine(play), tools=AgentToolServer(), **settings) as rig:
        for place in places:
            await rig.channel.say(place, place)
        await rig.until_true(lambda: len(servers) == len(places))
        yield rig, servers
        for place in places:
            await rig.channel.say("/stop", place)
            await rig.until_ended(conversation=ConversationId(f"memory:{place}"))


@asynccontextmanager
async def live_tools(folder: Path, **settings: Any) -> AsyncIterator[tuple[Rig, Mapping[str, Any]]]:
    """The same in one conversation: for engines beside the gateway."""
    async with live_places(folder, "main", **settings) as (rig, servers):
        yield rig, servers["main"]


async def call_over_http(strings: Strings, tool: str, **arguments: Any) -> tuple[bool, str]:
    server = strings.brief.mcp_servers["pilothouse"]
    return await anyio.to_thread.run_sync(lambda: call_tool(server, tool, arguments), abandon_on_cancel=True)
