"""Parameters and results of the requests that a client makes."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field


class Params(Struct, frozen=True, omit_defaults=True):
    pass


class ClientInfo(Params, frozen=True):
    name: str = ""
    version: str = ""


class UiCapabilities(Params, frozen=True):
    supports_confirm: bool = False
    supports_prompt: bool = False
    supports_pick: bool = False
    supports_markdown: bool = False
    supports_images: bool = False
    supports_permission_preflight_events: bool = False
    supports_clipboard_read: bool = False
    supports_run_updates: bool = False
    """Send `run.update` with text as it is written, plans, notices, files and usage."""


class InitializeParams(Params, frozen=True):
    protocol_version: str
    client: ClientInfo = field(default_factory=ClientInfo)
    ui_capabilities: UiCapabilities = field(default_factory=UiCapabilities)


class ServerInfo(Struct, frozen=True):
    name: str
    version: str


class ServerCapabilities(Struct, frozen=True):
    supports_run_cancel: bool = True
    supports_run_diagnostics: bool = False
    supports_run_updates: bool = True
    supports_shell_exec: bool = True
    supports_ui_requests: bool = True
    supports_ui_request_cancel: bool = True
    supports_skills_list: bool = True
    supports_context_inspect: bool = True
    supports_tool_call: bool = True
    supports_theme_set: bool = True
    supports_permission_preflight_events: bool = True
    supports_mcp_list: bool = True
    max_frame_bytes: int = 0


class Tui(Struct, frozen=True, omit_defaults=True):
    theme: str = ""


class InitializeResult(Struct, frozen=True):
    protocol_version: str
    server: ServerInfo
    server_capabilities: ServerCapabilities
    engine: str
    workspace_root: str
    tui: Tui


class ImageUrl(Struct, frozen=True):
    """`url` is a `data:` URL; others are refused."""

    url: str
    detail: Literal["auto", "low", "high"] = "auto"
    media_type: str = ""


class TextPart(Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class ImagePart(Struct, frozen=True, tag_field="type", tag="image_url"):
    image_url: ImageUrl


class ClipboardPart(Struct, frozen=True, tag_field="type", tag="clipboard"):
    """The content of the person's clipboard; the server asks for it with `ui.clipboard.read`."""

    formats: tuple[Literal["image/png", "text/plain"], ...] = ("text/plain", "image/png")


class TextInput(Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class PartsInput(Struct, frozen=True, tag_field="type", tag="parts"):
    parts: tuple[TextPart | ImagePart | ClipboardPart, ...]


class UiContext(Params, frozen=True):
    """The person's current view; told to the engine with the next run."""

    cwd: str = ""
    workspace_root: str = ""
    active_file: dict[str, Any] | None = None
    selection: dict[str, Any] | None = None
    extensions: dict[str, Any] | None = None


class RunStartParams(Params, frozen=True):
    input: TextInput | PartsInput | None = None
    session_id: str | None = None
    force_compaction: bool = False
    ui_context: UiContext | None = None
    meta: dict[str, Any] | None = None
    tools: list[Any] | None = None
    """Tools of the client; refused, because no engine can call them. So is a `tool_choice`."""
    tool_choice: Any = None


class RunStartResult(Struct, frozen=True):
    run_id: str
    session_id: str


class RunCancelParams(Params, frozen=True):
    run_id: str
    reason: str = ""


class Ok(Struct, frozen=True):
    ok: bool = True


class SessionListParams(Params, frozen=True):
    """A `limit` of 0 or less lists all."""

    limit: int = 50
    scope: Literal["current_workspace", "all"] = "current_workspace"
    workspace_root: str = ""


class SessionRow(Struct, frozen=True):
    session_id: str
    updated_at: str
    run_id: str
    message_count: int
    last_user_message: str
    workspace_root: str
    channel: str
    """The channel where it began: `rpc`, `terminal`, or a chat platform."""


class SessionListResult(Struct, frozen=True):
    sessions: tuple[SessionRow, ...]
    current_workspace_root: str


class SessionHistoryParams(Params, frozen=True):
    session_id: str
    max_runs: int = 20
    max_events: int = 1500


class RunState(Struct, frozen=True, omit_defaults=True):
    run_id: str
    status: str
    message: str = ""


class SessionHistoryResult(Struct, frozen=True):
    """`run_states` also has the runs that wait and have no event yet."""

    runs: int
    events_sent: int
    truncated: bool
    run_states: tuple[RunState, ...]


class ModelListParams(Params, frozen=True):
    provider: str = ""
    """The engine of the session, or one of its providers; empty for all models of the engine."""
    session_id: str | None = None
    include_details: bool = False


class ModelDetails(Struct, frozen=True, omit_defaults=True):
    """Prices are in US dollars. What is not known is left out."""

    release_date: str = ""
    context_window: int | None = None
    max_output_tokens: int | None = None
    cost_per_1m_input_tokens_usd: float | None = None
    cost_per_1m_output_tokens_usd: float | None = None


class ModelListResult(Struct, frozen=True, omit_defaults=True):
    provider: str
    models: tuple[str, ...]
    current: str = ""
    details: dict[str, ModelDetails] | None = None


class ModelSetParams(Params, frozen=True):
    """`config` changes the default of this folder, `session` one session. `provider` is an engine, or a provider of models of the
    one that is used already."""

    name: str = ""
    provider: str = ""
    scope: Literal["config", "session"] = "config"
    session_id: str | None = None
    reset: bool = False


class ModelSetResult(Struct, frozen=True):
    provider: str
    name: str
    message: str


class SkillsListParams(Params, frozen=True):
    cwd: str = ""
    force_reload: bool = False


class Skill(Struct, frozen=True):
    id: str
    name: str
    description: str
    path: str
    dir: str
    scope: Literal["repo", "user"]
    mtime_ms: int


class SkillError(Struct, frozen=True):
    path: str
    message: str


class SkillsListResult(Struct, frozen=True):
    skills: tuple[Skill, ...]
    errors: tuple[SkillError, ...]
    truncated: bool


class ContextInspectParams(Params, frozen=True):
    include_agents: bool = False
    include_skills: bool = False


class ContextFile(Struct, frozen=True):
    path: str
    mtime_ms: int
    size_bytes: int


class AgentsContext(Struct, frozen=True):
    """`loaded_files` is empty: engines load further files themselves."""

    enabled: bool
    root_dir: str
    working_dir: str
    covered_dirs: tuple[str, ...]
    initial_files: tuple[ContextFile, ...]
    loaded_files: tuple[ContextFile, ...] = ()


class SkillsContext(Struct, frozen=True):
    """`loaded_versions` is empty: engines load skills themselves."""

    root_dir: str
    working_dir: str
    catalog: SkillsListResult
    loaded_versions: tuple[ContextFile, ...] = ()


class ContextInspectResult(Struct, frozen=True, omit_defaults=True):
    runtime_working_dir: str
    runtime_sandbox_root: str
    engine: str
    ui_context: UiContext | None = None
    agents: AgentsContext | None = None
    skills: SkillsContext | None = None


class ThemeSetParams(Params, frozen=True):
    name: str


class ThemeSetResult(Struct, frozen=True):
    name: str
    path: str


class ShellExecParams(Params, frozen=True):
    """`cwd` is relative to the workspace and must stay inside it."""

    command: str
    timeout_seconds: float = 120.0
    cwd: str = ""


class Truncated(Struct, frozen=True):
    stdout: bool
    stderr: bool
    combined: bool


class ShellExecResult(Struct, frozen=True, omit_defaults=True):
    command_preview: str
    exit_code: int | None
    stdout: str
    stderr: str
    truncated: Truncated
    duration_ms: int
    stdout_cache_id: str = ""
    stderr_cache_id: str = ""
    problem: str = ""


class ToolCallParams(Params, frozen=True):
    """Without a `session_id`, the calls of a client share a session of their own."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    session_id: str | None = None


class ToolCallResult(Struct, frozen=True, omit_defaults=True):
    """`ok` is false if the tool failed or was not allowed; `result` says why."""

    ok: bool
    result: str
    run_id: str = ""
    session_id: str = ""


class AuthLogoutParams(Params, frozen=True):
    clear_session: bool = True


class AuthLogoutResult(Struct, frozen=True, omit_defaults=True):
    """`auth_cleared` is false if nothing was kept. No session is current on the server, so `session_cleared` repeats
    `clear_session`: start the next run without a `session_id`."""

    ok: bool
    auth_cleared: bool
    session_cleared: bool
    cancelled: bool = False
    message: str = ""


class McpListParams(Params, frozen=True):
    scope: str = ""


class McpServerRow(Struct, frozen=True, omit_defaults=True):
    """`state` is `configured`, `disabled`, or `untrusted` for a server of a folder that nobody trusts."""

    id: str
    transport: Literal["stdio", "http"]
    source: str
    enabled: bool
    state: Literal["configured", "disabled", "untrusted"]
    target: str = ""


class McpListResult(Struct, frozen=True):
    servers: tuple[McpServerRow, ...]
