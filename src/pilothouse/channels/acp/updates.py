"""The updates of a session that a client is told: `session/update` carries one of these. The union is closed."""

from __future__ import annotations

from typing import Any, Literal

from pilothouse.channels.acp.wire import (
    ConfigOption,
    ImageBlock,
    ResourceLink,
    TextBlock,
    ToolContent,
    ToolKind,
    ToolStatus,
    Wire,
)

Shown = TextBlock | ImageBlock | ResourceLink


class _Update(Wire, frozen=True, tag_field="sessionUpdate"):
    pass


class UserChunk(_Update, frozen=True, tag="user_message_chunk"):
    content: Shown


class AgentChunk(_Update, frozen=True, tag="agent_message_chunk"):
    content: Shown


class ThoughtChunk(_Update, frozen=True, tag="agent_thought_chunk"):
    content: Shown


class Location(Wire, frozen=True):
    path: str


class ToolStart(_Update, frozen=True, tag="tool_call"):
    tool_call_id: str
    title: str
    kind: ToolKind
    status: ToolStatus
    content: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()
    raw_input: Any = None


class ToolUpdate(_Update, frozen=True, tag="tool_call_update"):
    tool_call_id: str
    status: ToolStatus | None = None
    title: str | None = None
    content: tuple[ToolContent, ...] | None = None
    raw_output: Any = None


class PlanEntry(Wire, frozen=True):
    content: str
    priority: Literal["high", "medium", "low"]
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdate(_Update, frozen=True, tag="plan"):
    entries: tuple[PlanEntry, ...]


class Cost(Wire, frozen=True):
    amount: float
    currency: str


class UsageUpdate(_Update, frozen=True, tag="usage_update"):
    """Tokens that the session holds, and the size of the model's window. `cost` is that of the whole session."""

    used: int
    size: int
    cost: Cost | None = None


class Command(Wire, frozen=True):
    name: str
    description: str
    input: dict[str, str] | None = None


class CommandsUpdate(_Update, frozen=True, tag="available_commands_update"):
    available_commands: tuple[Command, ...]


class ModeUpdate(_Update, frozen=True, tag="current_mode_update"):
    current_mode_id: str


class OptionsUpdate(_Update, frozen=True, tag="config_option_update"):
    config_options: tuple[ConfigOption, ...]


class InfoUpdate(_Update, frozen=True, tag="session_info_update"):
    title: str
    updated_at: str = ""


class NoticeUpdate(_Update, frozen=True, tag="notice"):
    severity: Literal["info", "warning", "error"]
    title: str


Update = (
    UserChunk
    | AgentChunk
    | ThoughtChunk
    | ToolStart
    | ToolUpdate
    | PlanUpdate
    | UsageUpdate
    | CommandsUpdate
    | ModeUpdate
    | OptionsUpdate
    | InfoUpdate
    | NoticeUpdate
)
