"""The official conformance suite of MCP, pinned, and our server behind an address that needs no secret."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from tests.engines.npm_program import NpmProgram
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import open_rig

from pilothouse.agent_tools.access import Access
from pilothouse.agent_tools.table import TOOLS
from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.core.ids import SessionId
from pilothouse.runtime.agent_calls.caller import CallKeys, CallRefused
from pilothouse.testing.clock import FakeClock

SUITE = NpmProgram(
    "mcp-conformance",
    "0.2.0-alpha.12",
    Path(__file__).parent / "npm",
    "@modelcontextprotocol/conformance/dist/index.js",
    "node-linux-*/bin/node",
)


PROGRESS_EVERY_S, WORKS_S = 0.05, 1.5


async def _say(call: ToolCall, given: Arguments) -> str:
    return "This is a simple text response for testing."


async def _fail(call: ToolCall, given: Arguments) -> str:
    raise CallRefused("This tool intentionally returns an error for testing")


async def _work(call: ToolCall, given: Arguments) -> str:
    await anyio.sleep(WORKS_S)
    return "Done."


SUITE_TOOLS = {
    name: Tool(name, "A tool of the suite.", Arguments, run)
    for name, run in (
        ("test_simple_text", _say),
        ("test_error_handling", _fail),
        ("test_tool_with_progress", _work),
    )
}
"""Tools that scenarios call, beside our own."""


class OpenAccess(Access):
    """Accepts every request for one session: the suite cannot send a secret."""

    def __init__(self, session_id: SessionId) -> None:
        super().__init__(FakeClock())
        self._session_id = session_id

    # pyrefly: ignore [missing-override-decorator]
    def session_of(self, header: str) -> SessionId | None:
        return self._session_id


@asynccontextmanager
async def open_server(folder: Path) -> AsyncIterator[str]:
    """The address of the server, while a turn of a session runs."""
    from pilothouse.agent_tools.protocol import serve  # with the SDK, which takes a second

    sessions: list[SessionId] = []

    async def play(strings: Strings) -> None:
        await strings.start()
        sessions.append(strings.brief.session_id)
        await strings.interrupted.wait()
        await strings.end()

    async with open_rig(folder, PuppetEngine(play)) as rig:
        await rig.channel.say("go")
        await rig.until_true(lambda: sessions)
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        async with anyio.create_task_group() as tasks:
            access, tools = OpenAccess(sessions[0]), {**TOOLS, **SUITE_TOOLS}
            tasks.start_soon(serve, listening, rig.ports, access, CallKeys(), PROGRESS_EVERY_S, tools)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
            tasks.cancel_scope.cancel()
        await rig.channel.say("/stop")
        await rig.until_ended()
