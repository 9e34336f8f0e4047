"""What a tool call is called, and what kind it is: one table. Paths are relative to the workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from pilothouse.core.event import ToolCall, ToolKind
from pilothouse.core.ids import CallId

TITLE_CHARS = 120
DETAIL_CHARS = 2000
DETAIL_ITEMS = 50
DETAIL_DEPTH = 4

Title = Callable[[Mapping[str, Any], str], str]


def _of(prefix: str, *keys: str) -> Title:
    def title(given: Mapping[str, Any], workspace: str) -> str:
        return _joined(prefix, next((text for key in keys if (text := _text(given.get(key)))), ""))

    return title


def _path(prefix: str, *keys: str) -> Title:
    def title(given: Mapping[str, Any], workspace: str) -> str:
        path = next((text for key in keys if (text := _text(given.get(key)))), "")
        return _joined(prefix, relative(path, workspace))

    return title


def _todos(given: Mapping[str, Any], workspace: str) -> str:
    todos = [todo for todo in given.get("todos") or () if isinstance(todo, dict)]
    active = [todo for todo in todos if todo.get("status") == "in_progress"]
    first = (active or todos or [{}])[0]
    return _joined("todo: ", _text(first.get("content")))


def _questions(given: Mapping[str, Any], workspace: str) -> str:
    asked = [one for one in given.get("questions") or () if isinstance(one, dict)]
    return _joined("question: ", _text(asked[0].get("question")) if asked else "")


def _joined(prefix: str, text: str) -> str:
    return f"{prefix}{text}" if text.strip() else prefix.rstrip(": ") or "command"


# Name in the CLI -> kind, title. `Agent` is what a sub-agent's call is named, although init lists it as `Task`.
TOOLS: Mapping[str, tuple[ToolKind, Title]] = {
    "Bash": ("command", _of("", "command")),
    "Read": ("read", _path("tool: Read ", "file_path")),
    "Write": ("file_change", _path("file: ", "file_path")),
    "Edit": ("file_change", _path("edit: ", "file_path")),
    "MultiEdit": ("file_change", _path("edit: ", "file_path")),
    "NotebookEdit": ("file_change", _path("edit: ", "notebook_path")),
    "Glob": ("search", _of("glob: ", "pattern")),
    "Grep": ("search", _of("grep: ", "pattern")),
    "LS": ("search", _path("list: ", "path")),
    "ToolSearch": ("search", _of("tools: ", "query")),
    "WebSearch": ("web", _of("search: ", "query")),
    "web_search": ("web", _of("search: ", "query")),
    "WebFetch": ("web", _of("fetch: ", "url")),
    "web_fetch": ("web", _of("fetch: ", "url")),
    "Task": ("subagent", _of("task: ", "description", "prompt")),
    "Agent": ("subagent", _of("task: ", "description", "prompt")),
    "TodoWrite": ("note", _todos),
    "TaskCreate": ("note", _of("todo: ", "subject")),
    "TaskUpdate": ("note", _of("todo: ", "subject", "taskId")),
    "TaskList": ("note", _of("todo: list")),
    "AskUserQuestion": ("note", _questions),
    "EnterPlanMode": ("note", _of("plan: begin")),
    "ExitPlanMode": ("note", _of("plan: ", "plan")),
    "Skill": ("tool", _of("skill: ", "skill", "command")),
}


def describe_call(
    call_id: str, name: str, given: Mapping[str, Any], workspace: str, parent_id: str | None = None
) -> ToolCall:
    """The call as people see it; `detail` is cut to what a log may hold."""
    kind, title = TOOLS[name] if name in TOOLS else ("tool", _of(f"tool: {_tool_name(name)}"))
    words = title(given, workspace)
    detail = {**_bounded(given), "tool": name}
    return ToolCall(CallId(call_id), kind, _line(words), detail, CallId(parent_id) if parent_id else None)


def relative(path: str, workspace: str) -> str:
    """Inside the workspace, the path from there; elsewhere, as it is."""
    if not workspace or not path.startswith("/"):
        return path
    try:
        return str(PurePosixPath(path).relative_to(workspace))
    except ValueError:
        return path


def _tool_name(name: str) -> str:
    """`mcp__server__tool` is `server.tool` to people."""
    return ".".join(part for part in name.removeprefix("mcp__").split("__", 1) if part)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _line(text: str) -> str:
    line = " ".join(text[: TITLE_CHARS * 4].split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def _bounded(value: Any, depth: int = DETAIL_DEPTH) -> Any:
    match value:
        case str():
            return value if len(value) <= DETAIL_CHARS else value[: DETAIL_CHARS - 1] + "…"
        case dict() | list() if not depth:
            return "…"
        case dict():
            return {key: _bounded(item, depth - 1) for key, item in list(value.items())[:DETAIL_ITEMS]}
        case list():
            return [_bounded(item, depth - 1) for item in value[:DETAIL_ITEMS]]
        case _:
            return value
