"""Tool names that a script's payload, or a program that sends no `call`, may use. docs/engines/script.md lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilothouse.core.call import Call
from pilothouse.engines.tool_calls import ToolNames, read_tool_call

_PATH = ("file_path", "filePath", "path")

TOOLS = ToolNames(
    commands=frozenset({"Bash", "bash", "shell", "Shell", "exec_command", "local_shell"}),
    reads={
        "Read": _PATH,
        "read": _PATH,
        "LS": ("path",),
        "list": ("path",),
        "Glob": ("path", "pattern"),
        "glob": ("path", "pattern"),
        "Grep": ("path",),
        "grep": ("path",),
    },
    changes={
        "Write": _PATH,
        "write": _PATH,
        "Edit": _PATH,
        "edit": _PATH,
        "MultiEdit": _PATH,
        "NotebookEdit": ("notebook_path",),
    },
    deep=frozenset({"Glob", "glob", "Grep", "grep"}),
    patterns=frozenset({"Glob", "glob"}),
    web={"WebFetch": "url", "webfetch": "url"},
    skills={"Skill": ("skill", "command", "name"), "skill": ("name",)},
)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    """Return the call that `{"tool", "input", "cwd"}` describes; None if it names no tool."""
    return read_tool_call(TOOLS, payload)
