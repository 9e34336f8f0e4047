"""MCP servers that an editor sends: used in that session, judged like every call, refused with a reason, and gone with it."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.channels.acp.client_rig import Client, selected
from tests.channels.rpc.client_rig import write_home
from tests.engines.native import model as native_model
from tests.mcp_client.rig import PROGRAM

from pilothouse.bootstrap.client_servers import find_client_servers, open_client_servers
from pilothouse.channels.acp.mcp_servers import read_servers
from pilothouse.channels.acp.wire import McpEntry, NamedValue
from pilothouse.channels.request_errors import RequestError
from pilothouse.core.ids import ConversationId
from pilothouse.core.mcp import McpServer

PERMISSION = "session/request_permission"
HERE = ConversationId("acp:here")


def script(request: native_model.Request) -> native_model.Reply:
    if request.results or "look" not in request.prompt:
        return native_model.Reply("Done.")
    return native_model.Reply(calls=[native_model.Call("mcp__My-Shop__look", {"what": "shelf"})])


def tools(request: native_model.Request) -> set[str]:
    return {tool["name"] for tool in request.body["tools"]}


def test_a_session_uses_the_servers_of_its_editor_and_no_other_session_does(tmp_path: Path) -> None:
    write_home(tmp_path)
    kept = tmp_path / "state" / "client-servers"
    env = [{"name": "SHOP_TOKEN", "value": "sesame-open-sesame"}]
    server = {"name": "My Shop", "command": sys.executable, "args": [str(PROGRAM)], "env": env}
    with native_model.open_model(script) as model:
        (tmp_path / "config.toml").write_text(
            f'[gateway]\ndefault_engine = "native"\n[engines.native]\nprovider = "anthropic"\nmodel = "m"\nbase_url = "{model.url}"\n'
        )
        with Client(tmp_path, ANTHROPIC_API_KEY="no-key-at-all") as client:
            able = client.initialize()["agentCapabilities"]
            assert able["mcpCapabilities"] == {"http": True, "sse": False}
            bad = client.call("session/new", cwd=client.cwd, mcpServers=[{"name": "x", "command": ""}])
            assert bad["error"]["code"] == -32602 and "'x'" in bad["error"]["message"]
            told = client.call("session/new", cwd=client.cwd, mcpServers=[server])
            session, other = told["result"]["sessionId"], client.new()
            client.answers[PERMISSION] = selected("allow")
            assert client.say(session, "look") == {"stopReason": "end_turn"}
            assert [frame.get("method") for frame in client.frames].count(PERMISSION) == 1
            result = json.loads(json.loads(model.requests[-1].results[0])[0]["text"])
            assert result["given"] == {"what": "shelf"} and result["cwd"] == client.cwd
            assert result["environment"]["SHOP_TOKEN"] == "sesame-open-sesame"
            client.say(other, "hello")
            assert not any(name.startswith("mcp__My-Shop") for name in tools(model.requests[-1]))
            (file,) = tmp_path.rglob("client-servers/*.json")
            assert file.stat().st_mode & 0o777 == 0o600
            client.call("session/load", sessionId=session, cwd=client.cwd, mcpServers=[])
            client.say(session, "hello")
            assert not any(name.startswith("mcp__My-Shop") for name in tools(model.requests[-1]))
            client.close()
            assert client.program.wait(60) == 0
    assert not list(tmp_path.rglob("client-servers/*.json")), kept
    held = b"".join(path.read_bytes() for path in tmp_path.rglob("*.db*"))
    assert b'"SHOP_TOKEN":"sesame' not in held


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([McpEntry("", command="x")], "its name"),
        ([McpEntry("pilothouse", command="x")], "Pilothouse's own"),
        ([McpEntry("a b", command="x"), McpEntry("a-b", command="y")], "same name"),
        ([McpEntry("a", type="sse", url="http://x/")], "'sse' is not supported"),
        ([McpEntry("a", type="http", url="ftp://x/")], "address with http"),
        ([McpEntry("a")], "either `command`"),
        ([McpEntry(f"s{n}", command="x") for n in range(51)], "at most 50"),
    ],
)
def test_a_bad_entry_is_refused_with_its_name_and_the_reason(entries: list[McpEntry], words: str) -> None:
    with pytest.raises(RequestError) as error:
        read_servers(entries)
    assert words in error.value.text and error.value.code == -32602


def test_programs_and_addresses_are_read() -> None:
    headers = (NamedValue("Authorization", "Bearer x"),)
    found = read_servers(
        [
            McpEntry("Git Hub!", command="gh", args=("mcp",)),
            McpEntry("b", type="http", url="http://x/", headers=headers),
        ]
    )
    assert found == {
        "Git-Hub": McpServer(command="gh", args=("mcp",)),
        "b": McpServer(url="http://x/", headers={"Authorization": "Bearer x"}),
    }


def test_the_servers_of_a_killed_editor_do_not_count(tmp_path: Path) -> None:
    secrets: list[str] = []
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:  # keeps a server, and waits to be killed
        with open_client_servers(tmp_path, "two") as servers:
            servers.keep(HERE, {"two": McpServer(command="b")})
            os.write(told, b"x")
            signal.pause()
    os.read(ready, 1)
    with open_client_servers(tmp_path, "one") as servers:
        servers.keep(HERE, {"one": McpServer(command="a", env={"A_TOKEN": "sesame"})})

        def learn(*new: str) -> None:
            secrets.extend(new)

        def found() -> set[str]:
            return set(find_client_servers(tmp_path, learn, HERE))

        assert found() == {"one", "two"} and secrets == ["sesame"]
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        folder = tmp_path / "client-servers"
        (folder / "two.new").write_text("half of a file")
        (folder / "three.lock").touch()  # of an editor that sent no server
        assert found() == {"one"}
        assert sorted(path.name for path in folder.iterdir()) == ["one.json", "one.lock"]
        servers.keep(HERE, {})
        assert found() == set()
    assert list(folder.iterdir()) == []
