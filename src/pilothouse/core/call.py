"""Reads a tool call for rules: the command, files, host or tool that it uses.

A tool that is not named here may do anything, and is judged by its name alone.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from msgspec import Struct

CallKind = Literal["command", "read", "change", "web", "mcp", "skill", "notes", "other", "unreadable"]

COMMAND_TOOLS = frozenset({"Bash", "bash", "shell", "Shell", "exec_command", "local_shell", "Monitor"})
READ_TOOLS: Mapping[str, tuple[str, ...]] = {
    "Read": ("file_path",),
    "read": ("file_path", "filePath", "path"),
    "NotebookRead": ("notebook_path",),
    "LS": ("path",),
    "list": ("path",),
    "Glob": ("path", "pattern"),
    "glob": ("path", "pattern"),
    "Grep": ("path",),
    "grep": ("path",),
}
"""Tools that change nothing, and the keys of their input that hold paths."""
DEEP_TOOLS = frozenset({"Glob", "glob", "Grep", "grep"})
"""Tools that read everything below a folder."""
PATTERN_TOOLS = frozenset({"Glob", "glob"})
"""Tools whose last path is a pattern, relative to the first."""
CHANGE_TOOLS: Mapping[str, tuple[str, ...]] = {
    "Write": ("file_path",),
    "write": ("file_path", "filePath", "path"),
    "Edit": ("file_path",),
    "edit": ("file_path", "filePath", "path"),
    "MultiEdit": ("file_path",),
    "NotebookEdit": ("notebook_path",),
}
NOTES_TOOLS = frozenset(
    {"TaskCreate", "TaskUpdate", "TaskList", "TaskGet", "TodoRead", "TodoWrite", "ToolSearch"}
    | {"BashOutput", "TaskOutput", "KillShell", "KillBash", "TaskStop"}
)
"""Tools that only use the engine's own notes, or commands that were allowed before."""
WEB_TOOLS: Mapping[str, str] = {"WebFetch": "url", "webfetch": "url"}
SKILL_TOOLS: Mapping[str, tuple[str, ...]] = {"Skill": ("skill", "command", "name"), "skill": ("name",)}
MCP_PREFIX = "mcp__"


class Call(Struct, frozen=True):
    tool: str
    kind: CallKind
    cwd: str = ""
    """The folder of relative paths; empty if unknown."""
    command: str = ""
    paths: tuple[str, ...] = ()
    deep: bool = False
    host: str = ""
    server: str = ""
    server_tool: str = ""
    skill: str = ""
    texts: tuple[str, ...] = ()
    """Every text in the input of an unknown tool, for deny and ask rules."""
    cut: bool = False
    """Truncated: no match in `texts` proves nothing."""


MAX_TEXTS = 1000
MAX_CHARS = 200_000
"""Characters of all texts together."""


def read_call(payload: Mapping[str, Any]) -> Call:
    """Read an ask's payload: `tool`, `input`, `cwd`."""
    tool, given, cwd = (payload.get(key) for key in ("tool", "input", "cwd"))
    if not isinstance(tool, str) or not isinstance(given, Mapping):
        return Call(tool if isinstance(tool, str) else "", "unreadable")
    here = cwd if isinstance(cwd, str) else ""
    if tool in COMMAND_TOOLS:
        command = given.get("command")
        return Call(tool, "command", here, command) if isinstance(command, str) else Call(tool, "unreadable")
    for tools, kind in ((READ_TOOLS, "read"), (CHANGE_TOOLS, "change")):
        if tool in tools:
            return _file_call(tool, kind, here, [given.get(key) for key in tools[tool]])
    return _other_call(tool, here, given)


def _file_call(tool: str, kind: Literal["read", "change"], cwd: str, found: list[Any]) -> Call:
    named = [path for path in found if path is not None]
    if not all(isinstance(path, str) for path in named) or (kind == "change" and not named):
        return Call(tool, "unreadable", cwd)
    if any(has_outer_blanks(path) for path in named):
        return Call(tool, "unreadable", cwd)
    if tool in PATTERN_TOOLS and named:
        *place, pattern = named
        anywhere = ".." in pattern or re.search(r"\{[^}]*/|\\", pattern)
        named = [*place, "/" if anywhere else _fixed_part(posixpath.join(*named))]
    return Call(tool, kind, cwd, paths=tuple(dict.fromkeys(named)) or (".",), deep=tool in DEEP_TOOLS)


def has_outer_blanks(path: str) -> bool:
    """Tell whether a path begins or ends with a blank.

    Claude Code (2.1) trims the paths of Grep and Glob: " /root" is absolute to it, and relative to the system.
    """
    return any(char.isspace() or char == "\ufeff" for char in (path[:1], path[-1:]))


def _fixed_part(pattern: str) -> str:
    """Return the folder that contains everything that a pattern may match."""
    head = re.split(r"[*?\[{]", pattern, maxsplit=1)[0]
    return pattern if head == pattern else head.rpartition("/")[0] or ("/" if head.startswith("/") else ".")


def _other_call(tool: str, cwd: str, given: Mapping[str, Any]) -> Call:
    if tool in NOTES_TOOLS:
        return Call(tool, "notes", cwd)
    if tool in WEB_TOOLS:
        host = host_of(given.get(WEB_TOOLS[tool]))
        return Call(tool, "web", cwd, host=host) if host else Call(tool, "unreadable", cwd)
    if tool in SKILL_TOOLS:
        names = [name for key in SKILL_TOOLS[tool] if isinstance(name := given.get(key), str)]
        return Call(tool, "skill", cwd, skill=names[0].lstrip("/")) if names else Call(tool, "other", cwd)
    if tool.startswith(MCP_PREFIX):
        server, _, name = tool.removeprefix(MCP_PREFIX).partition("__")
        texts, cut = _texts_in(given)
        return Call(tool, "mcp", cwd, server=server, server_tool=name, texts=texts, cut=cut)
    texts, cut = _texts_in(given)
    return Call(tool, "other", cwd, texts=texts, cut=cut)


def _texts_in(given: Any) -> tuple[tuple[str, ...], bool]:
    """Return the texts in an input, and whether they were truncated."""
    found: list[str] = []
    pending, room = [given], MAX_CHARS
    while pending and len(found) < MAX_TEXTS and room >= 0:
        match pending.pop():
            case str() as text:
                found.append(text[:room])
                room -= len(text)
            case Mapping() as inner:
                pending.extend(inner.values())
            case list() as items:
                pending.extend(items)
            case _:
                pass
    return tuple(found), bool(pending) or room < 0


def host_of(url: Any) -> str:
    """Return the host of a URL; empty if it is not one."""
    if not isinstance(url, str):
        return ""
    try:
        return (urlsplit(url if "://" in url else f"https://{url}").hostname or "").rstrip(".").lower()
    except ValueError:
        return ""
