"""The command line of the MCP inspector judges the server, over HTTP and through the bridge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.agent_tools.agent import live_tools
from tests.dists import SRC
from tests.engines.npm_program import NpmProgram

from pilothouse.agent_tools.table import TOOLS

pytestmark = pytest.mark.slow

INSPECTOR = NpmProgram(
    "mcp-inspector",
    "2.12.0",
    Path(__file__).parent / "inspector_npm",
    "@modelcontextprotocol/inspector/clients/launcher/build/index.js",
    "node-linux-*/bin/node",
)
LIST = ("--method", "tools/list", "--strict")
"""With `--strict`, a schema that some client cannot read is an error."""
WITHIN_S = 120.0


class Inspector:
    """Asks one server. Its home is its own."""

    def __init__(self, home: Path, words: Sequence[str]) -> None:
        self._home = home
        self._words = words

    async def ask(self, *words: str) -> tuple[int, str, str]:
        """Return the exit code, and what it printed on both streams."""
        argv = [*INSPECTOR.command, "--cli", *self._words, *words]
        with anyio.fail_after(WITHIN_S):
            done = await anyio.run_process(argv, cwd=self._home, env={"HOME": str(self._home)}, check=False)
        return done.returncode, done.stdout.decode(), done.stderr.decode()


def over_http(home: Path, server: Mapping[str, Any], secret: str = "") -> Inspector:
    header = f"Bearer {secret}" if secret else server["headers"]["Authorization"]
    return Inspector(home, [server["url"], "--transport", "http", "--header", f"Authorization: {header}"])


def through_bridge(home: Path, server: Mapping[str, Any]) -> Inspector:
    bridge = server["stdio"]
    given = [f"{name}={value}" for name, value in {**bridge["env"], "PYTHONPATH": str(SRC)}.items()]
    pairs = [word for pair in given for word in ("-e", pair)]
    return Inspector(home, [*pairs, bridge["command"], *bridge["args"]])


async def test_the_inspector_lists_and_calls_the_tools_both_ways(tmp_path: Path) -> None:
    async with live_tools(tmp_path / "gateway") as (gateway, servers):
        own = servers["pilothouse"]
        for number, inspector in enumerate((over_http(tmp_path, own), through_bridge(tmp_path, own)), 1):
            code, listed, complaints = await inspector.ask(*LIST)
            assert (code, complaints) == (0, "")
            assert [tool["name"] for tool in json.loads(listed)["tools"]] == list(TOOLS)
            text = f"text=Hello {number}"
            code, told, _ = await inspector.ask(
                "--method", "tools/call", "--tool-name", "send_message", "--tool-arg", text
            )
            assert code == 0 and "Delivered" in told, told
        assert gateway.said() == ["Hello 1", "Hello 2"]
        code, _, refused = await over_http(tmp_path, own, "wrong").ask(*LIST)
        assert code != 0 and "auth_required" in refused
