"""Reads a tool's input as a `Call`, by the tool names of one engine, and finds the file change in it. Pure.

An engine lists its tools in a `ToolNames`, and the keys of their inputs that hold paths. A tool that is not listed may do
anything: it is a call of the kind `tool`, with its whole input.

A change is found by its shape: a path, and either a text that replaces another, a whole new content, a notebook's cell,
or a diff that the engine made itself. `Change.shown` names the values that a preview shows; others are shown beside it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.core.call import OWN_SERVER, Call, Cell, CellMode, Change, Replacement, host_of

MCP_PREFIX = "mcp__"
"""The tool `x` of the MCP server `hub` is called `mcp__hub__x`."""
OWN_TOOLS = f"{MCP_PREFIX}{OWN_SERVER}__"

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
    remarks: tuple[str, ...] = ()
    """Keys of any input that change nothing about what runs, such as a description."""
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
    shown = tuple(key for key in _named_keys(names, call) if key in given)
    return msgspec.structs.replace(call, change=change, shown=shown)


def _named_keys(names: ToolNames, call: Call) -> tuple[str, ...]:
    """Return the keys of the input that need not be shown beside the call."""
    match call.kind:
        case "command":
            return ("command", *names.remarks)
        case "read" if len(call.paths) == 1 and call.tool not in names.patterns:
            return (*names.reads[call.tool], *names.remarks)
        case "change" if len(call.paths) == 1:
            return (*names.changes[call.tool], *names.remarks)
        case "web":
            return (names.web[call.tool], *names.remarks)
        case _:
            return ()


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


_PATHS = ("file_path", "notebook_path", "path", "filePath", "filename")
_OLD = ("old_string", "old_str", "oldString", "oldText")
_NEW = ("new_string", "new_str", "newString", "newText")
_CONTENTS = ("content", "contents", "file_text")
_DIFFS = ("unified_diff", "diff", "patch")
_MODES: Mapping[str, CellMode] = {"replace": "replace", "insert": "insert", "delete": "delete"}


def find_change(given: Mapping[str, Any], *, is_known: bool) -> Change | None:
    """Return the change; None if there is none.

    Of a tool that is not known to change files, a preview shows only a diff of its own: what it does with a path and a
    content is a guess, and a diff against a file hides what is equal.
    """
    path = _first(given, _PATHS)
    if diff := _first(given, _DIFFS):
        return Change(path or "", diff=diff, shown=tuple(_named(given, _DIFFS)))
    change = _change_at(path, given) if path else None
    if change is None or not is_known:
        return change
    return msgspec.structs.replace(change, shown=(*_named(given, _PATHS), *_keys_of(change, given)))


def _change_at(path: str, given: Mapping[str, Any]) -> Change | None:
    if "notebook_path" in given:
        return _cell_change(path, given)
    listed = given.get("edits")
    edits = listed if isinstance(listed, list) else [given]
    found = [_replacement(edit) for edit in edits if isinstance(edit, dict)]
    replacements = tuple(one for one in found if one is not None)
    if replacements and len(replacements) == len(edits):
        return Change(path, replacements)
    content = _first(given, _CONTENTS)
    return None if content is None else Change(path, content=content)


def _cell_change(path: str, given: Mapping[str, Any]) -> Change | None:
    source, mode = given.get("new_source"), _MODES.get(str(given.get("edit_mode")), "replace")
    if not isinstance(source, str) and mode != "delete":
        return None
    text = source if isinstance(source, str) else ""
    return Change(path, cell=Cell(str(given.get("cell_id") or ""), text, mode))


def _keys_of(change: Change, given: Mapping[str, Any]) -> Iterator[str]:
    if change.cell is not None:
        deletes = change.cell.mode == "delete"
        seen = ("cell_id", "edit_mode") if deletes else ("cell_id", "edit_mode", "new_source")
        yield from (key for key in seen if isinstance(value := given.get(key), str) and _is_shown(key, value))
    elif change.content is not None:
        yield from _named(given, _CONTENTS)
    elif isinstance(edits := given.get("edits"), list):
        yield from ("edits",) if all(edit.keys() <= set(_edit_keys(edit)) for edit in edits) else ()
    else:
        yield from _edit_keys(given)


def _is_shown(key: str, value: str) -> bool:
    return key != "edit_mode" or value in _MODES


def _edit_keys(edit: Mapping[str, Any]) -> Iterator[str]:
    yield from (*_named(edit, _OLD), *_named(edit, _NEW))
    if isinstance(edit.get("replace_all"), bool):
        yield "replace_all"


def _replacement(edit: Mapping[str, Any]) -> Replacement | None:
    old, new = _first(edit, _OLD), _first(edit, _NEW)
    if old is None or new is None:
        return None
    return Replacement(old, new, edit.get("replace_all") is True)


def _first(given: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((given[key] for key in _named(given, keys)), None)


def _named(given: Mapping[str, Any], keys: tuple[str, ...]) -> list[str]:
    """Return the first of these keys that holds a text."""
    return [key for key in keys if isinstance(given.get(key), str)][:1]
