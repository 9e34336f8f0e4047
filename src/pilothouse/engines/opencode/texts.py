"""Words for people: the titles and kinds of OpenCode's tools, and notices for events that are nothing else."""

from __future__ import annotations

from typing import Any

from pilothouse.core.event import Notice, ToolCall, ToolKind
from pilothouse.core.ids import CallId
from pilothouse.engines.opencode.wire_parts import ToolPart
from pilothouse.engines.titles import bounded, one_line, relative, short_output

TEXT_CHARS = 500
DATA_URL = "base64,"

_KINDS: dict[str, ToolKind] = {
    "bash": "command",
    "edit": "file_change",
    "write": "file_change",
    "multiedit": "file_change",
    "apply_patch": "file_change",
    "read": "read",
    "list": "read",
    "glob": "search",
    "grep": "search",
    "codesearch": "search",
    "lsp": "search",
    "webfetch": "web",
    "websearch": "web",
    "task": "subagent",
    "skill": "note",
    "todowrite": "note",
    "todoread": "note",
}
_TITLES = {
    "bash": ("", "command"),
    "edit": ("edit: ", "filePath"),
    "write": ("file: ", "filePath"),
    "multiedit": ("edit: ", "filePath"),
    "read": ("read: ", "filePath"),
    "list": ("list: ", "path"),
    "glob": ("glob: ", "pattern"),
    "grep": ("grep: ", "pattern"),
    "webfetch": ("fetch: ", "url"),
    "websearch": ("search: ", "query"),
    "task": ("agent: ", "description"),
    "skill": ("skill: ", "name"),
}
"""The word before a tool's title, and the key of its input that is the title."""


def title_of(tool: str, given: dict[str, Any], workspace: str) -> str:
    before, key = _TITLES.get(tool, ("", ""))
    named = given.get(key)
    if isinstance(named, str) and named:
        return one_line(before + relative(named, workspace))
    if tool == "apply_patch":
        return "edit: a patch"
    return tool if tool in _KINDS else one_line(f"tool: {tool}")


def describe(part: ToolPart, workspace: str) -> ToolCall | None:
    """Return the call as people see it; None for a question, which they see as one."""
    if part.tool == "question":
        return None
    given = part.state.input
    kind = _KINDS.get(part.tool, "tool")
    return ToolCall(
        CallId(part.call_id), kind, title_of(part.tool, given, workspace), bounded({"input": given})
    )


def is_ok(part: ToolPart) -> bool:
    return part.state.status == "completed" and not part.state.metadata.get("exit")


def output_of(part: ToolPart) -> str:
    return short_output(part.state.error or part.state.output)


def images_of(part: ToolPart) -> list[str]:
    """Return the images that a call produced, in base64."""
    urls = [str(one.get("url") or "") for one in part.state.attachments]
    return [url.partition(DATA_URL)[2] for url in urls if url.startswith("data:image/") and DATA_URL in url]


def retried(attempt: int, message: str) -> Notice:
    return Notice(
        "warning", "api_retry", f"The model's API failed (attempt {attempt}): {message[:TEXT_CHARS]}"
    )


COMPACTED = Notice("info", "compacted", "The conversation was compacted.")
STEER_LOST = Notice(
    "warning", "steer_lost", "The turn ended before your last message reached OpenCode. Send it again."
)
RECONNECTED = Notice(
    "info",
    "reconnected",
    "The connection to OpenCode's server broke and was made again; its state was read anew.",
)


def unknown(kind: str) -> Notice:
    return Notice("info", "unknown_wire", f"OpenCode sent something that Pilothouse does not know: {kind}.")
