"""The Agent Client Protocol, version 1, from the agent's side: what clients ask for, and what we answer and tell.

Fields that we do not use are left out; clients may send more. The other side of the protocol, where Pilothouse is the
client, is read leniently in `engines/acp/wire.py`: an agent's mistake must cost one field, a client's is answered.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Raw, Struct, field

PROTOCOL = 1

PERMISSION = "session/request_permission"
ELICITATION = "elicitation/create"
UPDATE = "session/update"
CANCEL_REQUEST = "$/cancel_request"

RESOURCE_NOT_FOUND = -32002
INTERNAL = -32603

StopReason = Literal["end_turn", "cancelled", "refusal", "max_tokens", "max_turn_requests"]
ToolKind = Literal["read", "edit", "search", "execute", "think", "fetch", "other"]
ToolStatus = Literal["pending", "in_progress", "completed", "failed"]


class Wire(Struct, frozen=True, rename="camel", omit_defaults=True):
    pass


class Nothing(Wire, frozen=True):
    """An empty result."""


# What the client says about itself.


class FormAbility(Wire, frozen=True):
    pass


class ElicitationAbility(Wire, frozen=True):
    form: FormAbility | None = None


class NoticeAbility(Wire, frozen=True):
    pass


class ClientSessionAbilities(Wire, frozen=True):
    notices: NoticeAbility | None = None


class ClientAbilities(Wire, frozen=True):
    elicitation: ElicitationAbility | None = None
    session: ClientSessionAbilities | None = None

    @property
    def has_forms(self) -> bool:
        return self.elicitation is not None and self.elicitation.form is not None

    @property
    def has_notices(self) -> bool:
        return self.session is not None and self.session.notices is not None


class InitializeParams(Wire, frozen=True):
    protocol_version: int | str
    client_capabilities: ClientAbilities | None = None


# Requests of the client.


class NamedValue(Wire, frozen=True):
    name: str
    value: str


class McpEntry(Wire, frozen=True):
    """An MCP server: a program, or an address. One without a `type` is a program."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[NamedValue, ...] = ()
    url: str = ""
    headers: tuple[NamedValue, ...] = ()


class NewSessionParams(Wire, frozen=True):
    cwd: str
    mcp_servers: tuple[McpEntry, ...] = ()


class OpenSessionParams(Wire, frozen=True):
    session_id: str
    cwd: str
    mcp_servers: tuple[McpEntry, ...] = ()


class ListSessionsParams(Wire, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class SessionParams(Wire, frozen=True):
    session_id: str


class PromptParams(Wire, frozen=True):
    session_id: str
    prompt: tuple[ContentBlock, ...]


class SetModeParams(Wire, frozen=True):
    session_id: str
    mode_id: str


class SetOptionParams(Wire, frozen=True):
    session_id: str
    config_id: str
    value: str | bool


# Content.


class TextBlock(Wire, frozen=True, tag_field="type", tag="text"):
    text: str


class ImageBlock(Wire, frozen=True, tag_field="type", tag="image"):
    data: str
    mime_type: str


class AudioBlock(Wire, frozen=True, tag_field="type", tag="audio"):
    mime_type: str = ""


class ResourceLink(Wire, frozen=True, tag_field="type", tag="resource_link"):
    uri: str
    name: str = ""
    mime_type: str | None = None
    size: int | None = None


class Resource(Wire, frozen=True):
    uri: str
    text: str | None = None
    mime_type: str | None = None


class ResourceBlock(Wire, frozen=True, tag_field="type", tag="resource"):
    resource: Resource


ContentBlock = TextBlock | ImageBlock | AudioBlock | ResourceLink | ResourceBlock


class ToolText(Wire, frozen=True, tag_field="type", tag="content"):
    content: TextBlock


class ToolDiff(Wire, frozen=True, tag_field="type", tag="diff"):
    path: str
    new_text: str
    old_text: str | None = None


ToolContent = ToolText | ToolDiff


# Results.


class Implementation(Wire, frozen=True):
    name: str
    version: str
    title: str = ""


class SessionAbilities(Struct, frozen=True):
    list: Nothing = Nothing()
    resume: Nothing = Nothing()
    close: Nothing = Nothing()


class AgentAbilities(Struct, frozen=True, rename="camel"):
    load_session: bool = True
    prompt_capabilities: dict[str, bool] = field(
        default_factory=lambda: {"image": True, "audio": False, "embeddedContext": True}
    )
    mcp_capabilities: dict[str, bool] = field(default_factory=lambda: {"http": True, "sse": False})
    session_capabilities: SessionAbilities = SessionAbilities()


class InitializeResult(Struct, frozen=True, rename="camel"):
    protocol_version: int
    agent_info: Implementation
    agent_capabilities: AgentAbilities = AgentAbilities()
    auth_methods: tuple[()] = ()


class Mode(Wire, frozen=True):
    id: str
    name: str
    description: str = ""


class Modes(Struct, frozen=True, rename="camel"):
    current_mode_id: str
    available_modes: tuple[Mode, ...]


class OptionValue(Wire, frozen=True):
    value: str
    name: str


class ConfigOption(Struct, frozen=True, rename="camel"):
    """A choice from a list. `category` tells clients where to show it."""

    id: str
    name: str
    category: str
    current_value: str
    options: tuple[OptionValue, ...]
    type: Literal["select"] = "select"


class SessionState(Struct, frozen=True, rename="camel"):
    modes: Modes
    config_options: tuple[ConfigOption, ...]


class NewSession(Struct, frozen=True, rename="camel"):
    session_id: str
    modes: Modes
    config_options: tuple[ConfigOption, ...]


class ConfigOptions(Struct, frozen=True, rename="camel"):
    config_options: tuple[ConfigOption, ...]


class SessionInfo(Wire, frozen=True):
    session_id: str
    cwd: str
    title: str = ""
    updated_at: str = ""


class Sessions(Struct, frozen=True, rename="camel", omit_defaults=True):
    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


class PromptResult(Struct, frozen=True, rename="camel"):
    stop_reason: StopReason


# Requests that we make.


class PermissionOption(Wire, frozen=True):
    option_id: str
    name: str
    kind: Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class PermissionCall(Wire, frozen=True):
    """The tool call that a permission is about, as an update of it."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    content: tuple[ToolContent, ...] | None = None
    raw_input: Any = None


class PermissionParams(Wire, frozen=True):
    session_id: str
    tool_call: PermissionCall
    options: tuple[PermissionOption, ...]


class Outcome(Wire, frozen=True):
    outcome: str
    option_id: str = ""


class PermissionResult(Wire, frozen=True):
    outcome: Outcome


class ElicitationParams(Struct, frozen=True, rename="camel"):
    session_id: str
    message: str
    requested_schema: dict[str, Any]
    mode: Literal["form"] = "form"


class ElicitationResult(Wire, frozen=True):
    action: str
    content: dict[str, Any] | None = None


class CancelRequestParams(Wire, frozen=True):
    """`id` is sent as the client knows it."""

    request_id: str


class UpdateParams(Wire, frozen=True):
    session_id: str
    update: Struct


NO_PARAMS = Raw(b"{}")
