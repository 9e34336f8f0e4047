"""Tool calls of an ACP agent: merged from updates, named for people, and read as a `Call` that belongs to no vendor.

Rules: an agent says of each call its kind (`execute`, `edit`, `read` …), and mostly its input and the files that it touches.
A call is read by its kind only if every text of its input is understood: else it is a `tool`, which no mode allows unseen,
and people see the whole input. A command or change without its words or paths is unreadable. A tool whose
server may have another name than ours is not read as one of Pilothouse's own, which mostly need nobody's yes.
"""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.call import OWN_SERVER, Call, Change, Replacement, host_of
from pilothouse.core.event import ToolCall, ToolKind
from pilothouse.core.ids import CallId
from pilothouse.engines.acp.agents import PLAIN, Agent
from pilothouse.engines.acp.wire import Update, text_of
from pilothouse.engines.titles import bounded, one_line, relative, short_output
from pilothouse.engines.tool_calls import MCP_PREFIX, find_change

DIFF_CHARS = 200_000

KINDS: Mapping[str, ToolKind] = {
    "execute": "command",
    "edit": "file_change",
    "delete": "file_change",
    "move": "file_change",
    "read": "read",
    "search": "search",
    "fetch": "web",
    "think": "note",
}
_PATHS = frozenset(
    [
        "path",
        "paths",
        "file_path",
        "filePath",
        "filepath",
        "absolute_path",
        "notebook_path",
        "file_name",
        "fileName",
        "source",
        "destination",
        "old_path",
        "new_path",
    ]
)
_FOLDERS = ("cwd", "workdir", "directory", "dir_path", "working_directory")
_REMARKS = frozenset(["description", "instruction", "explanation", "reason"])
_TEXTS: Mapping[str, frozenset[str]] = {
    "execute": frozenset({"command", "commands", *_FOLDERS}),
    "read": frozenset({*_PATHS, "dir_path", "title"}),
    "search": frozenset({*_PATHS, "dir_path", "pattern", "query", "regex"}),
    "edit": frozenset(
        {*_PATHS, "changes", "diff", "content", "old_string", "new_string", "oldText", "newText", "old_str"}
        | {"new_str", "file_text", "edits", "title"}
    ),
    "fetch": frozenset({"url", "prompt", "format"}),
}
"""Keys of an input that hold texts or lists, by kind. Another such key may mean anything."""
_SHELLS = ("bash", "sh", "zsh", "dash")
_OWN_TOOL = re.compile(r"[a-z]+(?:_[a-z]+)*")
"""Names of Pilothouse's own tools: `mcp__pilothouse__x__y` may be the tool `y` of a server `pilothouse__x`."""


class Tool(Struct, frozen=True):
    """A tool call as far as it is known."""

    id: str
    title: str = ""
    name: str = ""
    kind: str = ""
    status: str = ""
    input: dict[str, Any] = {}
    output: Any = None
    content: list[Any] = []
    paths: tuple[str, ...] = ()
    folder: str = ""
    """The folder of a command that came as a title."""


def merge(tool: Tool | None, update: Update, agent: Agent = PLAIN) -> Tool:
    """Return the call with what an update adds; what it does not mention stays."""
    before = tool or Tool(update.tool_call_id)
    return Tool(
        before.id,
        update.title if update.title is not None else before.title,
        update.name or _meta_name(update.meta) or before.name or _id_name(before.id, agent),
        update.kind or before.kind,
        update.status or before.status,
        update.raw_input if isinstance(update.raw_input, dict) and update.raw_input else before.input,
        update.raw_output if update.raw_output is not None else before.output,
        update.content if isinstance(update.content, list) else before.content,
        before.paths if update.locations is None else _locations(update.locations),
        before.folder or _folder(update, agent),
    )


def _folder(update: Update, agent: Agent) -> str:
    found = (
        re.match(agent.titled, text_of(update.content)) if agent.titled and update.kind == "execute" else None
    )
    return found["cwd"] if found else ""


def _meta_name(meta: Any) -> str:
    """Return the tool's name where an agent gives it in its own way: at the top of `_meta`, or one level below."""
    found = [meta, *meta.values()] if isinstance(meta, dict) else ()
    names = [one.get("toolName") for one in found if isinstance(one, dict)]
    return next((name for name in names if isinstance(name, str)), "")


def _id_name(id: str, agent: Agent) -> str:
    name, found, _ = id.partition(agent.name_end) if agent.name_end else ("", "", "")
    return name if found else ""


def _locations(found: list[Any]) -> tuple[str, ...]:
    paths = [one.get("path") for one in found if isinstance(one, dict)]
    return tuple(dict.fromkeys(path for path in paths if isinstance(path, str) and path))


def payload_of(tool: Tool, cwd: str) -> dict[str, Any]:
    """Return the payload of an ask. A command that came as a title is read only with its folder."""
    given = tool.input
    changes = [one for one in tool.content if isinstance(one, dict) and one.get("type") == "diff"]
    if not given and tool.folder:
        given, cwd = {"command": tool.title}, os.path.join(cwd, tool.folder)
    elif not given and changes:
        given = {
            "changes": [{key: one.get(key) for key in ("path", "oldText", "newText")} for one in changes]
        }
    elif not given:
        given = {"title": tool.title}
    named = {"paths": list(tool.paths)} if tool.paths else {}
    return {"tool": tool.name or tool.kind or "tool", "kind": tool.kind, "input": given, "cwd": cwd, **named}


def call_of(payload: Mapping[str, Any]) -> Call | None:
    """Return the call that a payload describes; None if it names no tool."""
    tool, kind, given, cwd = (payload.get(key) for key in ("tool", "kind", "input", "cwd"))
    if not isinstance(tool, str):
        return None
    here = cwd if isinstance(cwd, str) else ""
    if not isinstance(given, dict):
        return Call("unreadable", tool, here)
    if tool.startswith(MCP_PREFIX):
        return _mcp_call(tool, here, given)
    if kind == "think":
        return Call("notes", tool, here)
    named = payload.get("paths")
    return _read(str(kind), tool, here, given, named if isinstance(named, list) else [])


def _mcp_call(tool: str, cwd: str, given: dict[str, Any]) -> Call:
    server, _, name = tool.removeprefix(MCP_PREFIX).partition("__")
    if server == OWN_SERVER and not _OWN_TOOL.fullmatch(name):
        return Call("tool", tool, cwd, input=given)
    return Call("mcp", tool, cwd, server=server, server_tool=name, input=given)


def _read(kind: str, tool: str, cwd: str, given: dict[str, Any], named: list[Any]) -> Call:
    family = "edit" if kind in ("delete", "move") else kind
    other = Call("tool", tool, cwd, input=given)
    if family not in _TEXTS:
        return other
    if family == "execute":
        return _command(tool, cwd, given) if _is_understood(family, given) else other
    paths = tuple(dict.fromkeys([*_paths_in(given), *(path for path in named if isinstance(path, str))]))
    if family == "edit":
        change = _change(given, cwd)
        if not _is_understood(family, given):
            return msgspec.structs.replace(other, change=change)
        return (
            Call("change", tool, cwd, paths=paths, change=change) if paths else Call("unreadable", tool, cwd)
        )
    if not _is_understood(family, given):
        return other
    if family == "fetch":
        host = host_of(given.get("url"))
        return Call("web", tool, cwd, host=host, url=str(given["url"])) if host else other
    if family == "search":
        escapes = any(_escapes(str(given.get(key) or "")) for key in ("pattern", "query", "regex"))
        return other if escapes else Call("read", tool, cwd, paths=paths or (".",), deep=True)
    return Call("read", tool, cwd, paths=paths) if paths else other


def _is_understood(family: str, given: Mapping[str, Any]) -> bool:
    """Tell whether each text and list of an input stands under a key that is known. Numbers and switches do no harm."""
    known = _TEXTS[family] | _REMARKS
    return all(key in known or isinstance(value, bool | int | float | None) for key, value in given.items())


def _command(tool: str, cwd: str, given: Mapping[str, Any]) -> Call:
    command = given.get("command")
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        shell = len(command) == 3 and os.path.basename(command[0]) in _SHELLS and command[1] in ("-lc", "-c")
        command = command[2] if shell else shlex.join(command)
    if not isinstance(command, str) or not command.strip():
        return Call("unreadable", tool, cwd)
    parts = given.get("commands", [])  # the same again, taken apart
    if not isinstance(parts, list) or not all(isinstance(part, str) and part in command for part in parts):
        return Call("unreadable", tool, cwd)
    folder = next((text for key in _FOLDERS if isinstance(text := given.get(key), str) and text), cwd)
    shown = ("command", *(key for key in ("commands", *_REMARKS) if key in given))
    return Call("command", tool, os.path.join(cwd, folder), command, shown=shown)


def _change(given: Mapping[str, Any], cwd: str) -> Change | None:
    changes = given.get("changes")
    if not isinstance(changes, list):
        return find_change(given, is_known=True)
    found = [one for one in changes if isinstance(one, dict) and isinstance(one.get("path"), str)]
    if len(found) == 1:
        path, old, new = (str(found[0].get(key) or "") for key in ("path", "oldText", "newText"))
        if old:
            return Change(path, (Replacement(old, new),), shown=("changes",))
        return Change(path, content=new, shown=("changes",))
    diff = "\n".join(line for one in found for line in _diff_lines(one, cwd))
    return Change(diff=diff, shown=("changes",)) if diff and len(diff) <= DIFF_CHARS else None


def _diff_lines(change: Mapping[str, Any], cwd: str) -> Iterator[str]:
    path, old, new = (str(change.get(key) or "") for key in ("path", "oldText", "newText"))
    if len(old) + len(new) > DIFF_CHARS:
        return
    name = relative(path, cwd)
    yield from difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")


def _paths_in(given: Mapping[str, Any]) -> list[str]:
    listed = given.get("changes")
    rows = [given, *(one for one in listed if isinstance(one, dict))] if isinstance(listed, list) else [given]
    found = [value for row in rows for key, value in row.items() if key in _PATHS or key == "dir_path"]
    return [
        path
        for value in found
        for path in (value if isinstance(value, list) else [value])
        if isinstance(path, str)
    ]


def _escapes(text: str) -> bool:
    """Tell whether a pattern may lead out of the folder that it is looked for in."""
    return ".." in text or "{" in text or text.startswith(("/", "~"))


def describe(tool: Tool, cwd: str, agent: Agent = PLAIN) -> ToolCall:
    """Return the call as people see it."""
    payload = payload_of(tool, cwd)
    call = call_of(payload)
    kind = KINDS.get(tool.kind, "tool")
    return ToolCall(
        CallId(tool.id), kind, one_line(_title(tool, call, cwd, agent)), bounded({"input": payload["input"]})
    )


def _title(tool: Tool, call: Call | None, cwd: str, agent: Agent) -> str:
    match call:
        case Call(kind="command", command=command):
            return command
        case Call(kind="change", paths=paths):
            verb = tool.kind if tool.kind in ("delete", "move") else "edit"
            return f"{verb}: {_names(paths, cwd)}"
        case Call(kind="read", paths=paths, deep=False):
            return f"read: {_names(paths, cwd)}"
        case Call(kind="web", url=url):
            return f"fetch: {url}"
        case _:
            return f"{tool.name}: {tool.title}" if agent.name_end else tool.title or tool.name or "tool"


def _names(paths: Sequence[str], cwd: str) -> str:
    return ", ".join(relative(path, cwd) for path in paths)


def output_of(tool: Tool) -> str:
    """Return a call's output: its content, else what the tool itself returned."""
    text = text_of(tool.content)
    if not text and isinstance(tool.output, str):
        text = tool.output
    if not text and isinstance(tool.output, dict):
        found = (tool.output.get(key) for key in ("output", "formatted_output", "stdout", "error"))
        text = next((one for one in found if isinstance(one, str) and one), "")
    return short_output(text)
