"""Calls of Codex in words that belong to no vendor: commands, patches, MCP tools, network access, permissions."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pilothouse.core.call import Call, Change
from pilothouse.engines.titles import relative

SHELL = "exec_command"
STDIN = "write_stdin"
PATCH = "apply_patch"
NETWORK = "network"
PERMISSIONS = "request_permissions"
MCP_PREFIX = "mcp__"

_SHELLS = ("bash", "sh", "zsh", "dash")
_SHELL_FLAGS = ("-lc", "-c")


def script_of(command: str) -> str:
    """Return the script that a person would type: Codex joins `/bin/bash -lc SCRIPT` into one line."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    is_shell = len(words) == 3 and os.path.basename(words[0]) in _SHELLS and words[1] in _SHELL_FLAGS
    return words[2] if is_shell else command


def call_of(payload: Mapping[str, Any]) -> Call | None:
    """Return the call that `{"tool", "input", "cwd"}` describes; None if it names no tool."""
    tool, given, cwd = (payload.get(key) for key in ("tool", "input", "cwd"))
    if not isinstance(tool, str):
        return None
    here = cwd if isinstance(cwd, str) else ""
    return _read(tool, here, given) if isinstance(given, dict) else Call("unreadable", tool, here)


def _read(tool: str, cwd: str, given: dict[str, Any]) -> Call:
    if tool == SHELL:
        command = given.get("command")
        known = isinstance(command, str) and command.strip()
        return Call("command", tool, cwd, command) if known else Call("unreadable", tool, cwd)
    if tool == PATCH:
        return _patch_call(cwd, given)
    if tool == NETWORK:
        host, url = given.get("host"), given.get("url")
        known = isinstance(host, str) and isinstance(url, str) and host
        return Call("web", tool, cwd, host=host, url=url) if known else Call("unreadable", tool, cwd)
    if tool.startswith(MCP_PREFIX):
        server, _, name = tool.removeprefix(MCP_PREFIX).partition("__")
        known = bool(server and name)
        return (
            Call("mcp", tool, cwd, server=server, server_tool=name, input=given)
            if known
            else Call("unreadable", tool, cwd)
        )
    return Call("tool", tool, cwd, input=given)


def _patch_call(cwd: str, given: dict[str, Any]) -> Call:
    changes = given.get("changes")
    if not isinstance(changes, list) or not changes or not all(isinstance(one, dict) for one in changes):
        return Call("unreadable", PATCH, cwd)
    paths = [path for one in changes for path in (one.get("path"), one.get("moved_to")) if path is not None]
    if not all(isinstance(path, str) and path for path in paths) or len(paths) < len(changes):
        return Call("unreadable", PATCH, cwd)
    if given.get("whole_folder"):
        return Call("unreadable", PATCH, cwd)
    change = Change(paths[0], diff=render_patch(changes, cwd), shown=("changes",))
    return Call("change", PATCH, cwd, paths=tuple(dict.fromkeys(paths)), change=change)


def render_patch(changes: Sequence[Mapping[str, Any]], cwd: str = "") -> str:
    """Render the changes as one unified diff. Codex gives hunks only for files that it changes."""
    return "\n".join(line for one in changes for line in _diff_lines(one, cwd))


def _diff_lines(change: Mapping[str, Any], cwd: str) -> Iterator[str]:
    name, kind, diff = (str(change.get(key) or "") for key in ("path", "kind", "diff"))
    name = relative(name, cwd)
    after = relative(str(change.get("moved_to") or ""), cwd) or name
    lines = diff.removesuffix("\n").split("\n") if diff else []
    match kind:
        case "add":
            yield from ("--- /dev/null", f"+++ {after}", f"@@ -0,0 +1,{len(lines)} @@")
            yield from (f"+{line}" for line in lines)
        case "delete":
            yield from (f"--- {name}", "+++ /dev/null", f"@@ -1,{len(lines)} +0,0 @@")
            yield from (f"-{line}" for line in lines)
        case _:
            yield from (f"--- {name}", f"+++ {after}")
            yield from lines
