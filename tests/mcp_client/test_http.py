"""Addresses as MCP servers, on loopback: headers are sent, refusals are told apart, and every answer has a bound."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.mcp_client.rig import LONG_S, Rig
from tests.mcp_client.stdio_server import result_of

from pilothouse.core.call import OWN_SERVER
from pilothouse.core.mcp import McpImage, McpServer, for_engines
from pilothouse.mcp_client.connection import Waits
from pilothouse.mcp_client.transport import COMPRESSED, TOO_LONG

METADATA = 'Bearer resource_metadata="http://127.0.0.1/.well-known/oauth-protected-resource"'


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    # pyrefly: ignore [missing-override-decorator]
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_POST(self) -> None:
        heard = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/login" and self.headers.get("authorization") != "Bearer good":
            self.reply(401, b"", {"WWW-Authenticate": METADATA})
        elif self.path == "/closed":
            self.reply(401, b"", {"WWW-Authenticate": "Bearer"})
        elif self.path in BAD:
            BAD[self.path](self)
        elif "id" not in heard:
            self.reply(202, b"")
        elif heard["method"] not in ("initialize", "tools/list", "tools/call"):
            self.reply(404, b"")
        else:
            self.answer(heard)

    def answer(self, heard: dict[str, Any]) -> None:
        params = heard.get("params") or {}
        if params.get("name") == "large":
            self.reply(200, b'"' + b"x" * 20_000_000 + b'"')
            return
        packed = {"Content-Encoding": "gzip"} if params.get("name") == "packed" else {}
        result = result_of(heard["method"], params, ["look", "draw", "large", "packed"])
        self.reply(200, json.dumps({"jsonrpc": "2.0", "id": heard["id"], "result": result}).encode(), packed)

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def do_GET(self) -> None:
        self.reply(405, b"")


def send_prose(handler: Handler) -> None:
    handler.reply(200, b"<html>Welcome!</html>", {"Content-Type": "text/html"})


def send_nothing(handler: Handler) -> None:
    handler.rfile.read(1)  # until the client has gone
    handler.close_connection = True


def send_100_mb(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", "text/event-stream")
    handler.end_headers()
    handler.close_connection = True
    with suppress(OSError):
        handler.wfile.write(b"data: ")
        for _ in range(100):
            handler.wfile.write(b"x" * 1_000_000)


BAD = {"/prose": send_prose, "/silent": send_nothing, "/flood": send_100_mb}


@contextmanager
def open_site() -> Iterator[str]:
    site = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.daemon_threads = True
    thread = Thread(target=site.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{site.server_address[1]}"
    finally:
        site.shutdown()
        site.server_close()
        thread.join()


async def test_tools_of_an_address_are_called_and_too_large_answers_are_errors(tmp_path: Path) -> None:
    with open_site() as url:
        server = McpServer(url=f"{url}/login", headers={"Authorization": "Bearer good"})
        async with Rig(tmp_path, {"shop": server}).tools() as tools:
            assert [(one.state, one.problem) for one in tools.statuses()] == [("ready", "")]
            looked = json.loads((await tools.call("mcp__shop__look", {"a": 1})).text)
            drawn = await tools.call("mcp__shop__draw", {})
            large = await tools.call("mcp__shop__large", {})
            again = await tools.call("mcp__shop__look", {})
            packed = await tools.call("mcp__shop__packed", {})
    assert looked["given"] == {"a": 1} and isinstance(drawn.content[0], McpImage)
    assert large.is_error and TOO_LONG in large.text
    assert not again.is_error
    assert packed.is_error and COMPRESSED in packed.text


async def test_our_own_server_has_a_connection_for_each_session(tmp_path: Path) -> None:
    name = "mcp__pilothouse__look"
    with open_site() as url:

        def own(secret: str) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {secret}"}
            return {OWN_SERVER: for_engines(McpServer(url=url, headers=headers))}

        async with Rig(tmp_path, {}).connections() as connections:
            with connections.lease(str(tmp_path), trusted=False, own=own("one")) as first:
                await first.settle(LONG_S)
                with connections.lease(str(tmp_path), trusted=False, own=own("two")) as second:
                    await second.settle(LONG_S)
                    assert not (await second.call(name, {})).is_error
                    assert not (await first.call(name, {})).is_error
                    assert [one.state for one in first.statuses()] == ["ready"]


async def test_a_login_that_is_wanted_a_refusal_and_a_dead_address_are_told_apart(tmp_path: Path) -> None:
    with open_site() as url:
        servers = {
            "login": McpServer(url=f"{url}/login"),
            "closed": McpServer(url=f"{url}/closed"),
            "dead": McpServer(url="http://127.0.0.1:9/"),
        }
        async with Rig(tmp_path, servers).tools() as tools:
            found = {one.id: (one.state, one.problem) for one in tools.statuses()}
    assert found["login"][0] == "auth_required" and "wants a login" in found["login"][1]
    assert found["closed"][0] == "error" and "does not say how to log in" in found["closed"][1]
    assert found["dead"][0] == "error" and "cannot be reached" in found["dead"][1]


async def test_prose_silence_and_a_flood_of_an_address_are_told_apart(tmp_path: Path) -> None:
    with open_site() as url:
        servers = {name.strip("/"): McpServer(url=f"{url}{name}") for name in BAD}
        silent = {"silent": servers.pop("silent")}
        async with Rig(tmp_path, servers).tools() as tools:
            found = {one.id: (one.state, one.problem) for one in tools.statuses()}
            refused = await tools.call("mcp__prose__x", {})
        async with Rig(tmp_path, silent, Waits(1, 1)).tools() as tools:
            found |= {one.id: (one.state, one.problem) for one in tools.statuses()}
    assert {state for state, _ in found.values()} == {"error"}
    assert "Unexpected content type: text/html" in found["prose"][1]
    assert found["silent"][1] == "It did not answer within 1 s."
    assert "16000000 byte limit" in found["flood"][1]
    assert refused.is_error and "cannot be used" in refused.text
