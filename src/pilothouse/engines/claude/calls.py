"""The tools of Claude Code (2.1) as calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilothouse.core.call import Call
from pilothouse.engines.tool_calls import ToolNames, read_tool_call

TOOLS = ToolNames(
    commands=frozenset({"Bash", "Monitor"}),
    reads={
        "Read": ("file_path",),
        "NotebookRead": ("notebook_path",),
        "LS": ("path",),
        "Glob": ("path", "pattern"),
        "Grep": ("path",),
    },
    changes={
        "Write": ("file_path",),
        "Edit": ("file_path",),
        "MultiEdit": ("file_path",),
        "NotebookEdit": ("notebook_path",),
    },
    deep=frozenset({"Glob", "Grep"}),
    patterns=frozenset({"Glob"}),
    web={"WebFetch": "url"},
    skills={"Skill": ("skill", "command", "name")},
    remarks=("description", "timeout"),
    other_shells=frozenset({"PowerShell"}),
    notes=frozenset(
        {"TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TodoRead", "TodoWrite", "ToolSearch"}
        | {"BashOutput", "TaskOutput", "KillShell", "KillBash", "TaskStop"}
    ),
)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    """Return the call that `{"tool", "input", "cwd"}` describes; None if it names no tool."""
    return read_tool_call(TOOLS, payload)
