"""Programs as MCP servers: what they can do reaches the caller, and nothing that they do harms it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import anyio
from tests.mcp_client.rig import LONG_S, Rig, program
from tests.mcp_client.stdio_server import NAMES

from pilothouse.core.engine import NODE_MARKER
from pilothouse.core.mcp import McpImage, McpServer
from pilothouse.mcp_client.connection import Waits
from pilothouse.mcp_client.transport import TOO_LONG


async def test_tools_are_listed_and_called_and_images_stay_images(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"shop": program(env={"COLOUR": "red"}), "off": program(enabled=False)})
    async with rig.tools() as tools:
        assert [(one.id, one.state, one.tools) for one in tools.statuses()] == [
            ("shop", "ready", len(NAMES)),
            ("off", "disabled", 0),
        ]
        assert tools.tools()[0].name == "mcp__shop__look"
        looked = json.loads((await tools.call("mcp__shop__look", {"a": 1})).text)
        drawn = await tools.call("mcp__shop__draw", {})
        failed = await tools.call("mcp__shop__fail", {})
        missing = await tools.call("mcp__shop__nothing", {})
    assert looked["given"] == {"a": 1} and looked["cwd"] == str(tmp_path)
    assert looked["environment"]["COLOUR"] == "red" and looked["environment"][NODE_MARKER] == "marker"
    assert "SECRET_TOKEN" not in looked["environment"]
    (image,) = drawn.content
    assert (
        isinstance(image, McpImage) and image.data.startswith(b"\x89PNG") and image.media_type == "image/png"
    )
    assert failed.is_error and missing.is_error and "There is no tool" in missing.text
    assert not Path(f"/proc/{looked['pid']}").exists()


async def test_a_server_that_dies_is_a_tool_error_and_starts_again_when_needed(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"shop": program()}).tools() as tools:
        died = await tools.call("mcp__shop__die", {})
        assert died.is_error and "ended with code 3" in died.text and "Listening" in died.text
        again = await tools.call("mcp__shop__look", {})
        assert not again.is_error
        flooded = await tools.call("mcp__shop__flood", {})
        assert flooded.is_error and TOO_LONG in flooded.text
        assert not (await tools.call("mcp__shop__look", {})).is_error


async def test_a_call_without_an_answer_ends_in_time(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"shop": program(timeout_s=0.2)}).tools() as tools:
        hung = await tools.call("mcp__shop__hang", {})
    assert hung.is_error and "did not answer within 0.2 s" in hung.text


async def test_a_changed_list_of_tools_is_read_again(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"shop": program()}).tools() as tools:
        await tools.call("mcp__shop__grow", {})
        with anyio.fail_after(60):
            while len(tools.tools()) <= len(NAMES):
                await anyio.sleep(0.01)


async def test_prose_silence_and_a_missing_program_are_told_apart(tmp_path: Path) -> None:
    servers = {
        "prose": program("prose"),
        "silent": program("silent"),
        "none": McpServer(command=str(tmp_path / "none")),
    }
    async with Rig(tmp_path, servers, Waits(20, 0.2)).tools() as tools:
        problems = {one.id: one.problem for one in tools.statuses()}
        assert {one.state for one in tools.statuses()} == {"error"}
        refused = await tools.call("mcp__none__x", {})
    assert "Welcome to the shop!" in problems["prose"]
    assert "did not answer" in problems["silent"]
    assert str(tmp_path / "none") in problems["none"]
    assert refused.is_error and "cannot be used" in refused.text


async def test_a_server_that_does_not_answer_is_waited_for_once(tmp_path: Path) -> None:
    async with Rig(tmp_path, {"silent": program("silent")}).connections() as connections:
        for within_s in (0.05, LONG_S, LONG_S):
            with connections.lease(str(tmp_path), trusted=True, own={}) as tools, anyio.fail_after(30):
                await tools.settle(within_s)
                assert [one.state for one in tools.statuses()] == ["connecting"]


async def test_a_changed_server_is_started_anew_and_leases_share_one_process(tmp_path: Path) -> None:
    rig = Rig(tmp_path, {"shop": program()})

    async def pid() -> int:
        with connections.lease(str(tmp_path), trusted=True, own={}) as tools:
            await tools.settle(50)
            return int(json.loads((await tools.call("mcp__shop__look", {})).text)["pid"])

    async with rig.connections() as connections:
        first = await pid()
        assert await pid() == first
        rig.servers["shop"] = program(env={"NEW": "1"})
        second = await pid()
        assert second != first
        os.kill(second, 0)
