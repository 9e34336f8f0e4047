"""Reads a tool's input as a `Call`, by the tool names of one engine. Pure.

An engine lists its tools in a `ToolNames`, and the keys of their inputs that hold paths. A tool that is not listed may do
anything: it is a call of the kind `tool`, with its whole input.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.core.call import Call, host_of
from pilothouse.engines.tool_changes import find_change

MCP_PREFIX = "mcp__"
"""The tool `x` of the MCP server `hub` is called `mcp__hub__x`."""

Keys = Mapping[str, tuple[str, ...]]


class ToolNames(Struct, frozen=True):
    """The names of one engine's tools, with the keys of their inputs that hold paths, addresses or names."""

    commands: frozenset[str]
    """Tools with a `command` for a POSIX shell."""
    reads: Keys
    changes: Keys
    deep: frozenset[str] = frozenset()
    """Reading tools that read everything below a folder."""
    patterns: frozenset[str] = frozenset()
    """Reading tools whose last path is a pattern, relative to the first."""
    web: Mapping[str, str] = {}
    skills: Keys = {}
    notes: frozenset[str] = frozenset()
    other_shells: frozenset[str] = frozenset()
    """Tools with a `command` for a shell that the policy cannot parse."""


def read_tool_call(names: ToolNames, payload: Mapping[str, Any]) -> Call | None:
    """Read `{"tool", "input", "cwd"}`; None if no tool is named."""
    tool, given, cwd = (payload.get(key) for key in ("tool", "input", "cwd"))
    if not isinstance(tool, str):
        return None
    here = cwd if isinstance(cwd, str) else ""
    if not isinstance(given, dict):
        return Call("unreadable", tool, here)
    call = _call(names, tool, here, given)
    change = find_change(given, is_known=tool in names.changes)
    return call if change is None else msgspec.structs.replace(call, change=change)


def _call(names: ToolNames, tool: str, cwd: str, given: dict[str, Any]) -> Call:
    if tool in names.commands:
        command = given.get("command")
        known = isinstance(command, str)
        return Call("command", tool, cwd, command) if known else Call("unreadable", tool, cwd)
    if tool in names.reads:
        return _file_call(names, "read", tool, cwd, [given.get(key) for key in names.reads[tool]])
    if tool in names.changes:
        return _file_call(names, "change", tool, cwd, [given.get(key) for key in names.changes[tool]])
    if tool in names.web:
        url = given.get(names.web[tool])
        host = host_of(url)
        return Call("web", tool, cwd, host=host, url=str(url)) if host else Call("unreadable", tool, cwd)
    return _other_call(names, tool, cwd, given)


def _other_call(names: ToolNames, tool: str, cwd: str, given: dict[str, Any]) -> Call:
    if tool in names.notes:
        return Call("notes", tool, cwd)
    if tool in names.skills:
        skills = [name for key in names.skills[tool] if isinstance(name := given.get(key), str)]
        if skills:
            return Call("skill", tool, cwd, skill=skills[0].lstrip("/"))
    if tool.startswith(MCP_PREFIX):
        server, _, name = tool.removeprefix(MCP_PREFIX).partition("__")
        return Call("mcp", tool, cwd, server=server, server_tool=name, input=given)
    if tool in names.other_shells and not isinstance(given.get("command"), str):
        return Call("unreadable", tool, cwd)
    return Call("tool", tool, cwd, input=given)


def _file_call(
    names: ToolNames, kind: Literal["read", "change"], tool: str, cwd: str, found: list[Any]
) -> Call:
    named = [path for path in found if path is not None]
    if not all(isinstance(path, str) for path in named) or (kind == "change" and not named):
        return Call("unreadable", tool, cwd)
    if any(_has_outer_blanks(path) for path in named):
        return Call("unreadable", tool, cwd)
    if tool in names.patterns and named:
        *place, pattern = named
        anywhere = ".." in pattern or re.search(r"\{[^}]*/|\\", pattern)
        named = [*place, "/" if anywhere else _fixed_part(posixpath.join(*named))]
    return Call(kind, tool, cwd, paths=tuple(dict.fromkeys(named)) or (".",), deep=tool in names.deep)


def _has_outer_blanks(path: str) -> bool:
    """Tell whether a path begins or ends with a blank.

    Some engines trim the paths of their searching tools: " /root" is absolute to them, and relative to the system.
    """
    return any(char.isspace() or char == "\ufeff" for char in (path[:1], path[-1:]))


def _fixed_part(pattern: str) -> str:
    """Return the folder that contains everything that a pattern may match."""
    head = re.split(r"[*?\[{]", pattern, maxsplit=1)[0]
    return pattern if head == pattern else head.rpartition("/")[0] or ("/" if head.startswith("/") else ".")
