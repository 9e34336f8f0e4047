"""Words for people: the titles and kinds of tool calls, and notices for lines that are nothing else. One table each.

Paths are relative to the workspace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pilothouse.core.event import Level, Notice, ToolCall, ToolKind
from pilothouse.core.ids import CallId
from pilothouse.engines.claude import wire_system
from pilothouse.engines.claude.wire import RateLimitEvent
from pilothouse.engines.claude.wire_system import describe_limit
from pilothouse.engines.titles import bounded, one_line, relative

Title = Callable[[Mapping[str, Any], str], str]

TEXT_CHARS = 500

_LEVELS: dict[str, Level] = {"error": "error", "warning": "warning"}
_CUT_OFF = ("Your response above was cut off mid-stream", "Output token limit hit")


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


# Tool name -> kind, title. A sub-agent's call is named `Agent`, although init lists it as `Task`.
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
    """Return the call as people see it; `detail` is cut to what a log may hold."""
    kind, title = TOOLS[name] if name in TOOLS else ("tool", _of(f"tool: {_tool_name(name)}"))
    words = title(given, workspace)
    detail = {**bounded(given), "tool": name}
    return ToolCall(CallId(call_id), kind, one_line(words), detail, CallId(parent_id) if parent_id else None)


def _tool_name(name: str) -> str:
    """Return `server.tool` for `mcp__server__tool`."""
    return ".".join(part for part in name.removeprefix("mcp__").split("__", 1) if part)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _retry(heard: wire_system.ApiRetry) -> Notice | None:
    if heard.error_status in (401, 403):
        return None  # no retry helps against a refused login, and the failure says what does
    if heard.error_status is None:
        what = "The API could not be reached"
    else:
        what = f"The API answered {heard.error_status} ({heard.error or 'unknown'})"
    again = f"next attempt in {heard.retry_delay_ms / 1000:.1f} s ({heard.attempt} of {heard.max_retries})"
    return Notice("warning", "api_retry", f"{what}; {again}.")


def _fallback(heard: wire_system.ModelFallback) -> Notice:
    text = heard.content or f"Switched from {heard.original_model} to {heard.fallback_model}"
    return Notice("warning", "model_fallback", text[:TEXT_CHARS])


def _status(heard: wire_system.Status) -> Notice | None:
    if heard.status == "compacting":
        return Notice("info", "compaction", "Compacting the conversation…")
    if heard.compact_error:
        return Notice(
            "info", "compaction_failed", f"Nothing was compacted ({heard.compact_error[:TEXT_CHARS]})."
        )
    if heard.permission_mode:
        return Notice("info", "permission_mode", f"The permission mode is now {heard.permission_mode}.")
    return None


def _compacted(heard: wire_system.CompactBoundary) -> Notice:
    told = heard.compact_metadata
    known = told.pre_tokens is not None and told.post_tokens is not None
    sizes = f" from {told.pre_tokens:,} to {told.post_tokens:,} tokens" if known else ""
    return Notice("info", "compacted", f"The conversation was compacted{sizes}.")


def _hook(heard: wire_system.HookResponse) -> Notice | None:
    if heard.outcome in ("success", "") and not heard.exit_code:
        return None
    why = heard.stderr.strip()[:TEXT_CHARS]
    return Notice("warning", "hook", f"The hook {heard.hook_name} failed{': ' if why else '.'}{why}")


def _informational(heard: wire_system.Informational) -> Notice | None:
    level = _LEVELS.get(heard.level, "info")
    return Notice(level, "informational", heard.content[:TEXT_CHARS]) if heard.content else None


def _limit(heard: RateLimitEvent) -> Notice | None:
    text = describe_limit(heard.rate_limit_info)
    return Notice("warning", "rate_limit", text) if text else None


def _task_started(heard: wire_system.TaskStarted) -> Notice | None:
    if not heard.is_backgrounded:
        return None
    return Notice("info", "background_task", f"Runs in the background: {heard.description[:TEXT_CHARS]}")


NOTICES: dict[type, Callable[[Any], Notice | None]] = {
    wire_system.ApiRetry: _retry,
    wire_system.ModelFallback: _fallback,
    wire_system.Status: _status,
    wire_system.CompactBoundary: _compacted,
    wire_system.HookResponse: _hook,
    wire_system.Informational: _informational,
    wire_system.TaskStarted: _task_started,
    RateLimitEvent: _limit,
}


def denied(title: str, why: str = "") -> Notice:
    reason = f" — {why[:TEXT_CHARS]}" if why else ""
    return Notice("warning", "permission_denied", f"Permission denied: {title}{reason}")


def denied_call(tool: str, given: dict[str, Any], workspace: str) -> Notice:
    return denied(describe_call("", tool, given, workspace).title)


def task_ended(heard: wire_system.TaskNotification) -> Notice:
    text = heard.summary or f"A background task ended: {heard.status}"
    return Notice("info", "background_task", text[:TEXT_CHARS])


def server_failed(name: str) -> Notice:
    return Notice("warning", "mcp_server", f"The MCP server {name} did not start; its tools are missing.")


def cut_off(text: str) -> Notice | None:
    """Return a notice if this is Claude Code's own message to the model that its answer was cut and goes on."""
    if text.startswith(_CUT_OFF):
        return Notice("info", "continued", "The answer was cut off and goes on.")
    return None


def unknown(kind: str) -> Notice:
    return Notice(
        "info", "unknown_wire", f"Claude Code sent something that Pilothouse does not know: {kind}."
    )


def noise(quoted: str) -> Notice:
    return Notice("warning", "engine_noise", f"Claude Code printed something that is no event: {quoted}")


def more_noise(count: int) -> Notice:
    return Notice("warning", "engine_noise", f"Claude Code printed {count} more lines that are no events.")
