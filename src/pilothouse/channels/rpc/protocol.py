"""The tables of the protocol, version "0": its methods with their types, and its error codes.

`docs/rpc.md` and `pilothouse rpc --schema` are generated from these tables.
"""

from __future__ import annotations

from msgspec import Struct

from pilothouse.channels.request_errors import INVALID_PARAMS, METHOD_NOT_FOUND, RequestError
from pilothouse.channels.rpc.notifications import (
    AgentEventParams,
    RunContextParams,
    RunDiagnosticsParams,
    RunStatusParams,
    RunUpdateParams,
    SessionNoticeParams,
    UiCancelParams,
    UiClipboardParams,
    UiClipboardResult,
    UiConfirmParams,
    UiConfirmResult,
    UiPickParams,
    UiPickResult,
    UiPromptParams,
    UiPromptResult,
)
from pilothouse.channels.rpc.params import (
    AuthLogoutParams,
    AuthLogoutResult,
    ContextInspectParams,
    ContextInspectResult,
    InitializeParams,
    InitializeResult,
    McpListParams,
    McpListResult,
    ModelListParams,
    ModelListResult,
    ModelSetParams,
    ModelSetResult,
    Ok,
    RunCancelParams,
    RunStartParams,
    RunStartResult,
    SessionHistoryParams,
    SessionHistoryResult,
    SessionListParams,
    SessionListResult,
    ShellExecParams,
    ShellExecResult,
    SkillsListParams,
    SkillsListResult,
    ThemeSetParams,
    ThemeSetResult,
    ToolCallParams,
    ToolCallResult,
    UiContext,
)

PROTOCOL_VERSION = "0"

INTERNAL = -32000
BUSY = -32001
RUN_NOT_FOUND = -32002
USER_CANCELLED = -32003
SESSION_NOT_FOUND = -32004
SESSION_LOAD_FAILED = -32005
SESSION_LIST_FAILED = -32006
UNSUPPORTED = -32007
VERSION_MISMATCH = -32008

ERRORS: dict[int, str] = {
    -32700: "The frame is not JSON, not UTF-8, or longer than the bound.",
    -32600: "The frame is no JSON-RPC request, or `initialize` was not called first.",
    METHOD_NOT_FOUND: "There is no such method.",
    INVALID_PARAMS: "The parameters have the wrong shape; the message names the field.",
    INTERNAL: "The request failed; the message says why.",
    BUSY: "The session has a run that has not ended, or 64 requests of the client wait for their answer.",
    RUN_NOT_FOUND: "No run with this id is active.",
    USER_CANCELLED: "The person said no to the request, or cancelled it.",
    SESSION_NOT_FOUND: "There is no such session.",
    SESSION_LOAD_FAILED: "The session exists, but cannot be continued from here.",
    SESSION_LIST_FAILED: "The sessions cannot be read.",
    UNSUPPORTED: 'The engine of the session cannot do this; `data` is `{"type": "unsupported", …}`.',
    VERSION_MISMATCH: "The client speaks another protocol version; `data` names ours.",
}


def unsupported(what: str, reason: str) -> RequestError:
    """The typed answer for what the engine of a session cannot do."""
    return RequestError(UNSUPPORTED, reason, {"type": "unsupported", "what": what, "reason": reason})


class Method(Struct, frozen=True):
    """One row of the tables: who calls it, what it takes and gives, and what it does."""

    name: str
    params: type[Struct]
    result: type[Struct] | None
    text: str


REQUESTS: tuple[Method, ...] = (
    Method("initialize", InitializeParams, InitializeResult, "Must come first; versions must be equal."),
    Method("run.start", RunStartParams, RunStartResult, "Start a run; durable when it is answered."),
    Method("run.cancel", RunCancelParams, Ok, "Stop a run, also while a dialog is open."),
    Method("session.list", SessionListParams, SessionListResult, "List sessions, last used first."),
    Method("session.history", SessionHistoryParams, SessionHistoryResult, "Replay the newest runs."),
    Method("model.list", ModelListParams, ModelListResult, "List the models of the session's engine."),
    Method("model.set", ModelSetParams, ModelSetResult, "Choose engine and model."),
    Method(
        "skills.list", SkillsListParams, SkillsListResult, "List the skills of the folder and the person."
    ),
    Method("context.inspect", ContextInspectParams, ContextInspectResult, "Say what the engine starts from."),
    Method("mcp.list", McpListParams, McpListResult, "List the configured MCP servers of the folder."),
    Method(
        "auth.logout", AuthLogoutParams, AuthLogoutResult, "Remove the engine's kept keys, after a confirm."
    ),
    Method("theme.set", ThemeSetParams, ThemeSetResult, "Save the theme that `initialize` returns."),
    Method("shell.exec", ShellExecParams, ShellExecResult, "Run a command that the person typed."),
    Method("tool.call", ToolCallParams, ToolCallResult, "Call a tool of the engine, or read kept output."),
)
CLIENT_NOTIFICATIONS: tuple[Method, ...] = (
    Method("ui.context.update", UiContext, None, "Tell what the person looks at."),
)
NOTIFICATIONS: tuple[Method, ...] = (
    Method("agent.event", AgentEventParams, None, "One event of a run."),
    Method("run.status", RunStatusParams, None, "The state of a run changed. A run ends with this."),
    Method("run.context", RunContextParams, None, "How much of the model's window is left."),
    Method("run.update", RunUpdateParams, None, "Live detail, if `supports_run_updates`."),
    Method("run.diagnostics", RunDiagnosticsParams, None, "Figures of a model call, or of a run."),
    Method("session.notice", SessionNoticeParams, None, "A message outside of runs."),
    Method("ui.request.cancel", UiCancelParams, None, "Close a dialog."),
)
UI_REQUESTS: tuple[Method, ...] = (
    Method("ui.confirm.request", UiConfirmParams, UiConfirmResult, "May this run?"),
    Method("ui.prompt.request", UiPromptParams, UiPromptResult, "Ask for text; null cancels."),
    Method("ui.pick.request", UiPickParams, UiPickResult, "Ask for a choice; none cancels."),
    Method(
        "ui.clipboard.read", UiClipboardParams, UiClipboardResult, "Read the clipboard for a run's input."
    ),
)
