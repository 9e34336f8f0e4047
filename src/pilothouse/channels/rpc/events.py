"""The events of a run as clients see them: `agent.event` carries one of these. The union is closed."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

StepStatus = Literal["completed", "error"]


class _Event(Struct, frozen=True, tag_field="type", omit_defaults=True):
    pass


class Text(_Event, frozen=True, tag="text"):
    """Text that a tool call or a failure followed. The last text of a completed run is only a `final`."""

    content: str
    timestamp: int


class Reasoning(_Event, frozen=True, tag="reasoning"):
    content: str
    timestamp: int


class StepStart(_Event, frozen=True, tag="step_start"):
    step_id: str
    title: str
    step_number: int


class ToolCall(_Event, frozen=True, tag="tool_call"):
    """`args` is the input of the tool as its engine shows it."""

    tool: str
    args: dict[str, Any]
    tool_call_id: str
    display_name: str = ""


class PermissionPreview(_Event, frozen=True, tag="permission.preview"):
    """The subject of the next confirm. Sent before `permission.ready`."""

    tool: str
    tool_call_id: str = ""
    file_path: str = ""
    language: str = ""
    diff: str = ""
    summary: str = ""
    truncated: bool = False


class PermissionReady(_Event, frozen=True, tag="permission.ready"):
    """The confirm follows next."""

    tool: str
    tool_call_id: str = ""


class ToolResult(_Event, frozen=True, tag="tool_result"):
    tool: str
    result: str
    tool_call_id: str
    is_error: bool = False


class StepComplete(_Event, frozen=True, tag="step_complete"):
    step_id: str
    status: StepStatus
    duration_ms: int


class CompactionStart(_Event, frozen=True, tag="compaction_start"):
    timestamp: int


class CompactionComplete(_Event, frozen=True, tag="compaction_complete"):
    timestamp: int
    compacted: bool


class HiddenUserMessage(_Event, frozen=True, tag="hidden_user_message"):
    """A person's message. In replayed history it has seq -1 and starts its run."""

    content: str


class Final(_Event, frozen=True, tag="final"):
    """The answer of a completed run."""

    content: str


AgentEvent = (
    Text
    | Reasoning
    | StepStart
    | ToolCall
    | PermissionPreview
    | PermissionReady
    | ToolResult
    | StepComplete
    | CompactionStart
    | CompactionComplete
    | HiddenUserMessage
    | Final
)


class NoticeUpdate(Struct, frozen=True, tag_field="type", tag="notice"):
    level: str
    kind: str
    text: str


class PlanStep(Struct, frozen=True):
    text: str
    status: Literal["pending", "active", "done"]


class PlanUpdate(Struct, frozen=True, tag_field="type", tag="plan"):
    items: tuple[PlanStep, ...]


class MediaUpdate(Struct, frozen=True, tag_field="type", tag="media"):
    """A file that the engine made; `cache_id` reads it with the tool `tool_output_cache`."""

    name: str
    media_type: str
    size: int
    cache_id: str


class UsageUpdate(Struct, frozen=True, tag_field="type", tag="usage", omit_defaults=True):
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class DeltaUpdate(Struct, frozen=True, tag_field="type", tag="text_delta"):
    """A piece of text while it is written. The same text comes whole as `text` or `final`."""

    block_id: str
    text: str


RunUpdate = NoticeUpdate | PlanUpdate | MediaUpdate | UsageUpdate | DeltaUpdate
