"""Plays the client of the official conformance suite: our connections, and a person who logs in at once.

It calls every tool of the suite's server with arguments that fit its schema.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.client.auth import AuthorizationCodeResult
from tests.mcp_client.rig import open_connections

from pilothouse.core.mcp import McpOAuth, McpReply, McpResult, McpServer, McpTools
from pilothouse.mcp_client.connection import Waits
from pilothouse.mcp_client.connections import McpEnvironment
from pilothouse.mcp_client.oauth import Authorize
from pilothouse.processes import Launcher

COMMAND = Path(__file__).with_name("conformance_command.py")
REDIRECT = "http://127.0.0.1:3000/callback"
DOCUMENT = "https://conformance-test.local/client-metadata.json"
SAMPLES: dict[str, Any] = {
    "number": 1.5,
    "integer": 5,
    "boolean": True,
    "string": "word",
    "array": [],
    "object": {},
}
ECHO = "json_schema_echo"
"""A tool that wants the schema of the first one."""
AT_ONCE = 3
"""The suite starts all scenarios at once; the SDK gives a server 10 s for its first answer."""
SETTLE_S = 100.0
SAID = "said.txt"
"""A file of each scenario: the state of the server, and what its tools answered."""


@asynccontextmanager
async def open_client(folder: Path) -> AsyncIterator[str]:
    """Yield the command for the suite; each scenario is played in this process."""
    path, limit = folder / "line", anyio.CapacityLimiter(AT_ONCE)

    async def serve(line: SocketStream) -> None:
        async with line:
            said = json.loads(await BufferedByteReceiveStream(line).receive_until(b"\n", 1_000_000))
            home = folder / said["SCENARIO"]
            home.mkdir(parents=True, exist_ok=True)
            context = json.loads(said["CONTEXT"] or "{}")
            async with limit:
                good = await play(home, said["URL"], said["SCENARIO"], context)
            await line.send(b"0\n" if good else b"1\n")

    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        yield f"{sys.executable} -I -S {COMMAND} {path}"
        tasks.cancel_scope.cancel()


def _no_log(event: str, **fields: object) -> None:
    """The checks of the suite say all."""


async def play(home: Path, url: str, scenario: str, context: dict[str, Any]) -> bool:
    """Return true if the server was ready, and no call failed."""
    server = McpServer(url=url, oauth=_settings(scenario, context), timeout_s=60)
    env = McpEnvironment(
        lambda workspace, trusted: {"suite": (server, "")},
        Launcher(),
        {},
        "marker",
        _no_log,
        logins=home,
        waits=Waits(120, 60),
        authorize=Authorize(REDIRECT, log_in),
    )
    async with open_connections(env) as connections:
        with connections.lease(str(home), trusted=True, own={}) as tools:
            await tools.settle(SETTLE_S)
            results = await _call_all(tools, context)
            (status,) = tools.statuses()
            words = [status.state, status.problem, *(result.text for result in results)]
            (home / SAID).write_text("\n".join(words))
            return status.state == "ready" and not any(result.is_error for result in results)


async def agree(server: str, params: dict[str, Any]) -> McpReply:
    """Fill in the fields that have no default."""
    fields = params["requestedSchema"].get("properties", {})
    given = {name: sample(field) for name, field in fields.items() if "default" not in field}
    return McpReply("accept", given)


async def log_in(address: str) -> AuthorizationCodeResult:
    """Do what a browser does: open the address, and read the one that it leads to."""
    async with httpx2.AsyncClient(timeout=60) as browser:
        response = await browser.get(address)
    query = parse_qs(urlsplit(response.headers["location"]).query)
    found = {name: values[0] for name, values in query.items()}
    return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


def _settings(scenario: str, context: dict[str, Any]) -> McpOAuth:
    if scenario == "auth/basic-cimd":
        return McpOAuth(client_id=DOCUMENT)
    if scenario == "auth/pre-registration":
        return McpOAuth(client_id=context["client_id"], client_secret=context["client_secret"])
    return McpOAuth()


async def _call_all(tools: McpTools, context: dict[str, Any]) -> list[McpResult]:
    names = {tool.tool: tool.name for tool in tools.tools()}
    calls = [(one["name"], one.get("arguments") or {}) for one in context.get("toolCalls", ())]
    calls = calls or [(tool.tool, sample(dict(tool.schema)) or {}) for tool in tools.tools()]
    if any(name == ECHO for name, _ in calls):
        calls = [(ECHO, {"schema": dict(tools.tools()[0].schema)})]
    return [await tools.call(names.get(name, name), arguments, agree) for name, arguments in calls]


def sample(schema: dict[str, Any]) -> Any:
    """Return a value that fits the schema, as far as the suite's schemas go."""
    if "properties" in schema:
        wanted = schema.get("required", schema["properties"])
        return {name: sample(schema["properties"][name]) for name in wanted}
    chosen = schema["enum"][0] if "enum" in schema else SAMPLES.get(schema.get("type", ""))
    return schema.get("default", chosen)
