"""Calls of OpenCode's tools in words that belong to no vendor. Pure.

A tool of an MCP server is called `server_tool` there, with every other character than letters, digits, `_` and `-` replaced;
which part is the server's name is known only with the list of servers. Here it becomes `mcp__server__tool`, as rules name it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from pilothouse.core.call import OWN_SERVER, Call, Change
from pilothouse.engines.tool_calls import MCP_PREFIX, OWN_TOOLS, ToolNames, read_tool_call

SHELL = "bash"
PATCH = "apply_patch"
TASK = "task"
DOOM_LOOP = "doom_loop"

TOOLS = ToolNames(
    commands=frozenset({SHELL}),
    reads={"read": ("filePath",), "list": ("path",), "glob": ("path", "pattern"), "grep": ("path",)},
    changes={"edit": ("filePath",), "write": ("filePath",), "multiedit": ("filePath",)},
    deep=frozenset({"list", "glob", "grep"}),
    patterns=frozenset({"glob"}),
    web={"webfetch": "url"},
    skills={"skill": ("name",)},
    notes=frozenset({"todowrite", "todoread"}),
    remarks=("description", "timeout"),
)
PERMISSIONS: Mapping[str, str] = {
    **dict.fromkeys((*TOOLS.changes, PATCH), "edit"),
    **{name: name for name in (SHELL, *TOOLS.reads, *TOOLS.web, *TOOLS.skills, *TOOLS.notes)},
    **{name: name for name in (TASK, "websearch", "codesearch", "lsp")},
}
"""The permission that OpenCode asks for before each of its own tools runs."""
UNASKED = frozenset({"question", "invalid", "plan_enter", "plan_exit", "StructuredOutput"})
"""Own tools that OpenCode never asks about. They reach nothing outside the session."""

_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE)
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


def call_of(payload: Mapping[str, Any]) -> Call | None:
    """Return the call that `{"tool", "input", "cwd"}` describes; None if it names no tool."""
    call = read_tool_call(TOOLS, payload)
    if call is None or call.kind == "unreadable":
        return call
    given: dict[str, Any] = payload["input"]
    if call.tool == SHELL:
        return _command(call, given)
    if call.tool == PATCH:
        return _patch(call, given)
    return call


def _command(call: Call, given: Mapping[str, Any]) -> Call:
    """`workdir` is the folder in which the command runs, if it is not the workspace."""
    if "workdir" not in given:
        return call
    folder = given["workdir"]
    if not isinstance(folder, str) or not folder.startswith("/"):
        return Call("unreadable", call.tool, call.cwd)
    return msgspec.structs.replace(call, cwd=folder)


def _patch(call: Call, given: Mapping[str, Any]) -> Call:
    text = given.get("patchText")
    paths = (
        [path for found in _PATCHED.findall(text) for path in found if path] if isinstance(text, str) else []
    )
    if not paths:
        return Call("unreadable", call.tool, call.cwd)
    change = Change(paths[0], diff=str(text), shown=("patchText",))
    return Call("change", PATCH, call.cwd, paths=tuple(dict.fromkeys(paths)), change=change)


def own_server(session_id: str) -> str:
    """Return the name of Pilothouse's own server for one session: all sessions of a folder see the servers of all."""
    return f"{OWN_SERVER}_{hashlib.sha256(session_id.encode()).hexdigest()[:8]}"


def own_call(call: Call, session_id: str) -> Call | None:
    """Return a call of the session's own server by the name that rules know; None for that of another session."""
    if not call.server.startswith(f"{OWN_SERVER}_"):
        return call
    if call.server != own_server(session_id):
        return None
    tool = f"{OWN_TOOLS}{call.server_tool}"
    return msgspec.structs.replace(call, tool=tool, server=OWN_SERVER)


def rule_name(tool: str, servers: Iterable[str]) -> str:
    """Return the name by which rules know a tool: `mcp__server__tool` if it is one of these servers'."""
    if tool in PERMISSIONS or tool in UNASKED:
        return tool
    for server in sorted(servers, key=len, reverse=True):
        prefix = f"{_OTHER.sub('_', server)}_"
        if tool.startswith(prefix) and len(tool) > len(prefix):
            return f"{MCP_PREFIX}{server}__{tool.removeprefix(prefix)}"
    return tool
