"""The MCP server: its secrets, its cost, and calls over HTTP."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import anyio
import httpx2
import pytest
from tests.agent_tools.agent import call_over_http
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import open_rig

from pilothouse.agent_tools.access import AFTER_LEASE_S, Access
from pilothouse.agent_tools.bridge import Bridge
from pilothouse.agent_tools.server import AgentToolServer
from pilothouse.agent_tools.table import TOOLS
from pilothouse.core.ids import SessionId
from pilothouse.testing.clock import FakeClock

PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_an_agent_speaks_over_http_and_a_wrong_secret_is_refused(tmp_path: Path) -> None:
    results: list[tuple[bool, str]] = []
    statuses: dict[str, int] = {}
    listed: list[str] = []
    bridged: list[dict[str, Any]] = []

    async def play(strings: Strings) -> None:
        await strings.start()
        results.append(await call_over_http(strings, "send_message", text="Hello from a tool."))
        results.append(await call_over_http(strings, "send_message", text="x", chat="memory:other"))
        results.append(await call_over_http(strings, "no_such_tool"))
        server = strings.brief.mcp_servers["pilothouse"]
        good = server["headers"]["Authorization"]
        async with httpx2.AsyncClient(trust_env=False, headers=ACCEPT) as client:
            tries = {"none": "", "wrong": f"{good}x", "basic": good.replace("Bearer", "Basic"), "good": good}
            for name, value in tries.items():
                refused = await client.post(server["url"], json=PING, headers={"Authorization": value})
                statuses[name] = refused.status_code
            answer = await client.post(server["url"], json=PING, headers={"Authorization": good})
            lines = [line for line in answer.text.splitlines() if line.startswith("data: {")]
            listed.extend(tool["name"] for tool in json.loads(lines[-1][6:])["result"]["tools"])
            headers = {"Authorization": good, "Host": "evil.example"}
            statuses["host"] = (await client.post(server["url"], json=PING, headers=headers)).status_code
        bridge = server["stdio"]
        lines = "".join(json.dumps(line) + "\n" for line in ([INITIALIZE, PING]))
        done = await anyio.run_process(
            [bridge["command"], *bridge["args"]], input=lines.encode(), env={**os.environ, **bridge["env"]}
        )
        bridged.extend(json.loads(line)["result"] for line in done.stdout.splitlines())
        await strings.end("Done.")

    async with open_rig(tmp_path, PuppetEngine(play), tools=AgentToolServer()) as rig:
        await rig.channel.say("go")
        await rig.until_said("Done.", 60)
        assert rig.said()[0] == "Hello from a tool."
    ok, text = results[0]
    assert ok and text.startswith("Delivered. messageId: 100")
    assert [ok for ok, _ in results] == [True, False, False]
    assert "unknown field `chat`" in results[1][1]
    assert "There is no tool no_such_tool" in results[2][1]
    assert statuses == {"none": 401, "wrong": 401, "basic": 401, "good": 200, "host": 421}
    assert listed == list(TOOLS)
    assert [tool["name"] for tool in bridged[1]["tools"]] == listed, "the same over stdio"


WHOLE, CUT = b'data: {"jsonrpc":"2.0","id":7,"result":{}}\n', b'data: {"jsonrpc":"2.0","id":7,"res'
PROGRESS = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'


@pytest.mark.parametrize(
    ("sent", "is_error"),
    [(PROGRESS + WHOLE, False), (PROGRESS, True), (PROGRESS + CUT, True), (b"", True)],
    ids=["whole", "without the answer", "in the answer", "at once"],
)
@pytest.mark.parametrize("ends", ["cleanly", "in the middle"])
def test_the_bridge_answers_each_request_once_although_the_stream_ends(
    sent: bytes, is_error: bool, ends: str
) -> None:
    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            received = b""
            while not received.endswith(b"}"):
                received += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.sendall(b"%x\r\n%s\r\n" % (len(sent), sent) if sent else b"")
            connection.sendall(b"0\r\n\r\n" if ends == "cleanly" and sent else b"")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=serve)
        thread.start()
        out, line = io.BytesIO(), b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}\n'
        Bridge(f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", "x", out).serve(io.BytesIO(line))
        thread.join()
    answers = [one for one in map(json.loads, out.getvalue().splitlines()) if one.get("id") == 7]
    assert [("error" in one) for one in answers] == [is_error]


async def test_a_secret_expires_after_the_last_lease_of_its_session() -> None:
    clock = FakeClock()
    access = Access(clock)
    one, other = SessionId("session-1"), SessionId("session-2")
    with access.lease(one) as secret, access.lease(other) as another:
        await clock.advance(10 * AFTER_LEASE_S)
        assert access.session_of(f"Bearer {secret}") == one
        assert access.session_of(f"Bearer {another}") == other
        assert access.session_of(secret) is None
    await clock.advance(AFTER_LEASE_S - 1)
    assert access.session_of(f"Bearer {secret}") == one
    await clock.advance(2)
    assert access.session_of(f"Bearer {secret}") is None
    with access.lease(one) as again:
        assert again == secret, "a warm process keeps its secret"
        assert access.session_of(f"Bearer {secret}") == one


def test_the_sdk_is_not_imported_before_an_engine_connects() -> None:
    program = (
        "import sys, pilothouse.bootstrap.assembly;"
        "sys.exit([m for m in ('mcp', 'uvicorn', 'starlette', 'pydantic') if m in sys.modules] or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_schema_is_plain() -> None:
    for tool in TOOLS.values():
        schema = tool.schema()
        assert schema["type"] == "object", tool.name
        assert "$ref" not in json.dumps(schema)
        assert tool.description.count(".") == 1 and tool.description.endswith(".")
