"""The gateway finds the engine that reads a payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from pilothouse.bootstrap.assembly import read_engine_call
from pilothouse.core.call import Call
from pilothouse.core.ids import EngineId
from pilothouse.engines.script.spec import ENGINE
from pilothouse.plugins import Plugins
from pilothouse.plugins.registry import Found


def careless(payload: Mapping[str, Any]) -> Call | None:
    return Call("command", command=payload["input"]["command"])


CARELESS = msgspec.structs.replace(ENGINE, id=EngineId("careless"), call_of=careless)


@pytest.mark.parametrize(
    ("engine", "tool", "call"),
    [
        ("claude", "Bash", Call("command", "Bash", "/w", "ls", shown=("command",))),
        ("claude", "local_shell", Call("tool", "local_shell", "/w", input={"command": "ls"})),
        ("script", "local_shell", Call("command", "local_shell", "/w", "ls", shown=("command",))),
        ("nobody", "Bash", None),
    ],
)
def test_each_engine_reads_its_own_payloads(engine: str, tool: str, call: Call | None) -> None:
    payload = {"tool": tool, "input": {"command": "ls"}, "cwd": "/w"}
    assert read_engine_call(Plugins(), EngineId(engine), payload) == call


@pytest.mark.parametrize(
    ("given", "call"),
    [({"command": "ls"}, Call("command", command="ls")), ({"command": 7}, None), ({}, None)],
)
def test_an_input_that_a_plugin_cannot_read_raises_nothing(given: dict[str, Any], call: Call | None) -> None:
    plugins = Plugins(lambda _group: [Found("careless", f"{__name__}:CARELESS")])
    assert read_engine_call(plugins, EngineId("careless"), {"input": given}) == call
