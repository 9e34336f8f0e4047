"""Items of a Codex thread, as `item/started` and `item/completed` carry them: one value per type, flat on the wire."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
from msgspec import Struct, field

from pilothouse.engines.lenient_json import read_fields

NAME_CHARS = 60


class _Item(Struct, frozen=True, rename="camel"):
    id: str = ""


class UserMessage(_Item, frozen=True):
    """A prompt that reached the model. `client_id` is the id that we gave it."""

    client_id: str | None = None


class AsyncQuestion(Struct, frozen=True):
    title: str = ""
    options: list[str] | None = None


class AgentMessage(_Item, frozen=True):
    """`questions` are set where the model asks, and goes on without waiting."""

    text: str = ""
    questions: list[AsyncQuestion] | None = None


class Reasoning(_Item, frozen=True):
    summary: list[str] = field(default_factory=list)


class Plan(_Item, frozen=True):
    text: str = ""


class CommandExecution(_Item, frozen=True):
    command: str = ""
    cwd: str = ""
    source: str = ""
    status: str = ""
    aggregated_output: str | None = None
    exit_code: int | None = None


class ChangeKind(Struct, frozen=True):
    type: str = ""
    move_path: str | None = None


class FileUpdate(Struct, frozen=True):
    """`diff` is the whole content of a file that is added or deleted, and hunks of one that is changed."""

    path: str = ""
    kind: ChangeKind = ChangeKind()
    diff: str = ""


class FileChange(_Item, frozen=True):
    changes: list[FileUpdate] = field(default_factory=list)
    status: str = ""


class ToolError(Struct, frozen=True):
    message: str = ""


class ToolResult(Struct, frozen=True):
    content: list[Any] = field(default_factory=list)


class McpToolCall(_Item, frozen=True):
    server: str = ""
    tool: str = ""
    arguments: Any = None
    status: str = ""
    result: ToolResult | None = None
    error: ToolError | None = None


class DynamicToolCall(_Item, frozen=True):
    tool: str = ""
    status: str = ""
    success: bool | None = None


class SubAgentCall(_Item, frozen=True):
    """One agent speaks to another: `spawnAgent`, `sendInput`, `wait` and so on."""

    tool: str = ""
    status: str = ""
    prompt: str | None = None


class SubAgentActivity(_Item, frozen=True):
    kind: str = ""
    agent_path: str = ""


class WebSearch(_Item, frozen=True):
    query: str = ""


class ImageView(_Item, frozen=True):
    path: str = ""


class ImageGeneration(_Item, frozen=True):
    """`result` is the image in base64."""

    status: str = ""
    result: str = ""


class ContextCompaction(_Item, frozen=True):
    pass


class OtherItem(_Item, frozen=True):
    """An item that needs no words: the program's own notes."""

    type: str = ""


class UnknownItem(_Item, frozen=True):
    type: str = ""


Item = (
    UserMessage
    | AgentMessage
    | Reasoning
    | Plan
    | CommandExecution
    | FileChange
    | McpToolCall
    | DynamicToolCall
    | SubAgentCall
    | SubAgentActivity
    | WebSearch
    | ImageView
    | ImageGeneration
    | ContextCompaction
    | OtherItem
    | UnknownItem
)

_OTHER = ("hookPrompt", "functionCallOutput", "sleep", "enteredReviewMode", "exitedReviewMode")
_NAMES: dict[type[Struct], str] = {SubAgentCall: "collabAgentToolCall"}
KINDS: dict[str, type[Struct]] = {
    _NAMES.get(kind, f"{kind.__name__[0].lower()}{kind.__name__[1:]}"): kind
    for kind in get_args(Item)
    if kind not in (OtherItem, UnknownItem)
}


def read_item(value: dict[str, Any]) -> Item:
    """Read an item; a field of an unexpected shape is dropped."""
    name = str(value.get("type") or "")
    kind = KINDS.get(name)
    if kind is None:
        made = OtherItem if name in _OTHER else UnknownItem
        return made(str(value.get("id") or ""), name[:NAME_CHARS])
    try:
        return msgspec.convert(value, kind)  # pyrefly: ignore[bad-return]
    except msgspec.ValidationError:
        return read_fields(value, kind)[0] or UnknownItem(type=name[:NAME_CHARS])  # pyrefly: ignore[bad-return]
