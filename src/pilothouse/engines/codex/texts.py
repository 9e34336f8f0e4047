"""Words for people: the titles and kinds of Codex's items, and notices for lines that are nothing else."""

from __future__ import annotations

from typing import Any

from pilothouse.core.event import Notice, ToolCall, ToolKind
from pilothouse.core.ids import CallId
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.calls import script_of
from pilothouse.engines.codex.wire_items import (
    CommandExecution,
    DynamicToolCall,
    FileChange,
    FileUpdate,
    ImageGeneration,
    ImageView,
    Item,
    McpToolCall,
    SubAgentCall,
    WebSearch,
)
from pilothouse.engines.titles import bounded, one_line, relative, short_output

TEXT_CHARS = 500
DONE = "completed"


def describe_item(item: Item, workspace: str) -> ToolCall | None:
    """Return the call as people see it; None for an item that is no call."""
    match item:
        case CommandExecution(command=command, cwd=cwd):
            script = script_of(command)
            return _call(item, "command", script or "command", {"command": script, "cwd": cwd})
        case FileChange(changes=changes):
            return _call(item, "file_change", _patch_title(changes, workspace), {"changes": patch_of(item)})
        case McpToolCall(server=server, tool=tool, arguments=given):
            return _call(item, "tool", f"tool: {server}.{tool}", {"input": given})
        case DynamicToolCall(tool=tool):
            return _call(item, "tool", f"tool: {tool}", {})
        case SubAgentCall(tool=tool, prompt=prompt):
            return _call(item, "subagent", f"agent: {prompt or tool}", {"action": tool})
        case WebSearch(query=query):
            return _call(item, "web", f"search: {query}" if query else "search", {"query": query})
        case ImageView(path=path):
            return _call(item, "read", f"image: {relative(path, workspace)}", {"path": path})
        case ImageGeneration():
            return _call(item, "tool", "tool: image", {})
        case _:
            return None


def is_ok(item: Item) -> bool:
    """Tell whether a completed call did what it should."""
    match item:
        case CommandExecution(status=status, exit_code=code):
            return status == DONE and not code
        case DynamicToolCall(success=success):
            return success is not False
        case FileChange(status=status) | McpToolCall(status=status) | SubAgentCall(status=status):
            return status == DONE
        case _:
            return True


def output_of(item: Item) -> str:
    match item:
        case CommandExecution(aggregated_output=output):
            return short_output(output or "")
        case McpToolCall(error=error) if error is not None:
            return short_output(error.message)
        case McpToolCall(result=result) if result is not None:
            texts = [str(part.get("text") or "") for part in result.content if isinstance(part, dict)]
            return short_output("\n".join(filter(None, texts)))
        case _:
            return ""


def images_of(item: Item) -> list[str]:
    """Return the images that a call produced, in base64."""
    match item:
        case ImageGeneration(result=result):
            return [result] if result else []
        case McpToolCall(result=result) if result is not None:
            parts = [part for part in result.content if isinstance(part, dict)]
            return [str(part.get("data") or "") for part in parts if part.get("type") == "image"]
        case _:
            return []


def patch_of(item: FileChange) -> list[dict[str, str]]:
    """Return the changes of a patch as a payload shows them."""
    return [_change(one) for one in item.changes]


def _change(update: FileUpdate) -> dict[str, str]:
    moved = {"moved_to": update.kind.move_path} if update.kind.move_path else {}
    return {"path": update.path, "kind": update.kind.type, "diff": update.diff} | moved


def _patch_title(changes: list[FileUpdate], workspace: str) -> str:
    kinds = {change.kind.type for change in changes}
    verb = {"add": "file", "delete": "delete"}.get(kinds.pop(), "edit") if len(kinds) == 1 else "edit"
    return f"{verb}: {', '.join(relative(change.path, workspace) for change in changes)}"


def _call(item: Any, kind: ToolKind, title: str, detail: dict[str, Any]) -> ToolCall:
    return ToolCall(CallId(item.id), kind, one_line(title), bounded(detail))


def retried(error: wire.TurnError) -> Notice:
    details = f": {error.additional_details[:TEXT_CHARS]}" if error.additional_details else ""
    return Notice("warning", "api_retry", f"{error.message[:TEXT_CHARS]}{details}")


def warned(heard: wire.Warned) -> Notice:
    return Notice("warning", "engine_warning", (heard.message or heard.summary)[:TEXT_CHARS])


def rerouted(heard: wire.Rerouted) -> Notice:
    return Notice("warning", "model_fallback", f"Codex switched from {heard.from_model} to {heard.to_model}.")


def server_failed(heard: wire.ServerStatus) -> Notice:
    why = f" ({heard.error[:TEXT_CHARS]})" if heard.error else ""
    return Notice(
        "warning", "mcp_server", f"The MCP server {heard.name} did not start; its tools are missing{why}."
    )


COMPACTED = Notice("info", "compacted", "The conversation was compacted.")
STEER_LOST = Notice(
    "warning", "steer_lost", "The turn ended before your last message reached Codex. Send it again."
)


def unknown(kind: str) -> Notice:
    return Notice("info", "unknown_wire", f"Codex sent something that Pilothouse does not know: {kind}.")
