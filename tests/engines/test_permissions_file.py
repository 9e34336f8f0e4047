"""PERMISSIONS.json as it holds for every engine: over the kinds of calls, whatever an engine calls its tools."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pilothouse.core.call import Call
from pilothouse.core.engine import Brief
from pilothouse.core.ids import SessionId
from pilothouse.engines.permissions_file import parse_permissions
from pilothouse.engines.workspace_files import FILE_CHARS, permissions_text

CALLS = {
    "command": Call("command", "exec_command", command="make"),
    "read": Call("read", "look", paths=("a",)),
    "change": Call("change", "apply_patch", paths=("a",)),
    "web": Call("web", "fetch", host="example.org"),
    "mcp": Call("mcp", "mcp__shop__buy", server="shop", server_tool="buy"),
    "tool": Call("tool", "request_permissions"),
    "unreadable": Call("unreadable", "apply_patch"),
}


def left(**file: object) -> set[str]:
    parsed = parse_permissions(json.dumps(file))
    assert not parsed.problem
    return {name for name, call in CALLS.items() if not parsed.forbids(call)}


def test_a_tier_leaves_its_kinds_of_calls() -> None:
    assert left(tier="readonly") == {"read", "web"}
    assert left(tier="standard") == {"read", "web", "change"}
    assert left(tier="full") == set(CALLS)


@pytest.mark.parametrize(
    ("tools", "kinds"),
    [
        ([], set()),
        (["Bash", "Read"], {"command", "read"}),
        (["Edit"], {"change"}),
        (["apply_patch"], {"change", "unreadable"}),
        (["mcp__shop"], {"mcp"}),
        (["mcp__shop__buy"], {"mcp"}),
        (["mcp__shop__look", "mcp__sho"], set()),
    ],
)
def test_a_list_leaves_what_it_names(tools: list[str], kinds: set[str]) -> None:
    assert left(tier="custom", tools=tools) == kinds


def test_a_file_that_nobody_understands_leaves_nothing() -> None:
    parsed = parse_permissions('{"tier": "godmode"}')
    assert parsed.problem
    assert all(parsed.forbids(call) for call in CALLS.values())


def test_no_file_is_no_opinion() -> None:
    assert not any(parse_permissions(None).forbids(call) for call in CALLS.values())


def test_a_file_that_is_too_large_or_never_ends_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    def problem() -> str:
        parsed = parse_permissions(permissions_text(brief))
        assert all(parsed.forbids(call) for call in CALLS.values())
        return parsed.problem

    file = tmp_path / "PERMISSIONS.json"
    brief = Brief(SessionId("s"), str(tmp_path), settings_dir=str(tmp_path))
    assert permissions_text(brief) is None
    file.write_text('{"tier": "full"}')
    assert not parse_permissions(permissions_text(brief)).problem
    file.write_text('{"tier": "full"}' + " " * 5 * FILE_CHARS)
    said = "PERMISSIONS.json cannot be read, so no tool is allowed: "
    assert problem() == f"{said}it has more than 256,000 bytes."
    file.unlink()
    os.mkfifo(file)
    assert problem() == f"{said}not a plain file."
    file.unlink()
    file.symlink_to("/dev/zero")
    assert problem() == f"{said}not a plain file."
    file.unlink()
    file.mkdir()
    assert problem() == f"{said}Is a directory."
