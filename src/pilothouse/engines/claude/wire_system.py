"""`system` lines by their subtype, and the subscription's limits, as values.

Each subtype has its own shape, which msgspec cannot tell by two tags at once.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field

NAMES = {
    "five_hour": "five-hour limit",
    "seven_day": "weekly limit",
    "seven_day_opus": "weekly Opus limit",
    "seven_day_sonnet": "weekly Sonnet limit",
    "overage": "extra usage",
}


class RateLimit(Struct, frozen=True):
    """`status` is `allowed`, `allowed_warning` or `rejected`; `utilization` goes from 0 to 1."""

    status: str = ""
    resets_at: float | None = field(default=None, name="resetsAt")
    kind: str | None = field(default=None, name="rateLimitType")
    utilization: float | None = None


def describe_limit(limit: RateLimit) -> str:
    """Return one sentence for people; empty if there is nothing to say. A failure names its reset elsewhere."""
    name = NAMES.get(limit.kind or "", "usage limit")
    when = f"; it resets {_when(limit.resets_at)}" if limit.resets_at else ""
    if limit.status == "rejected":
        return f"Claude's {name} is reached."
    if limit.status == "allowed_warning":
        used = "Most" if limit.utilization is None else f"{limit.utilization:.0%}"
        return f"{used} of Claude's {name} is used{when}."
    return ""


def _when(at: float) -> str:
    try:
        return datetime.fromtimestamp(at).strftime("at %H:%M on %d %b")  # noqa: DTZ006 - in the machine's zone
    except (ValueError, OverflowError, OSError):
        return "later"


class McpServer(Struct, frozen=True):
    name: str = ""
    status: str = ""


class Init(Struct, frozen=True):
    """The start of every turn, not only of the first."""

    session_id: str
    cwd: str = ""
    model: str = ""
    tools: list[str] = field(default_factory=list)
    mcp_servers: list[McpServer] = field(default_factory=list)
    permission_mode: str = field(default="", name="permissionMode")
    claude_code_version: str = ""
    user_message_uuids: list[str] | None = None


class Status(Struct, frozen=True):
    status: str | None = None
    permission_mode: str | None = field(default=None, name="permissionMode")
    compact_result: str | None = None
    compact_error: str | None = None


class ApiRetry(Struct, frozen=True):
    attempt: int = 0
    max_retries: int = 0
    retry_delay_ms: float = 0
    error_status: int | None = None
    error: str | None = None


class ModelFallback(Struct, frozen=True):
    trigger: str = ""
    original_model: str = ""
    fallback_model: str = ""
    content: str = ""


class PermissionDenied(Struct, frozen=True):
    tool_name: str = ""
    tool_use_id: str = ""
    message: str = ""


class CompactMetadata(Struct, frozen=True):
    trigger: str = ""
    pre_tokens: int | None = None
    post_tokens: int | None = None


class CompactBoundary(Struct, frozen=True):
    compact_metadata: CompactMetadata = CompactMetadata()


class TaskStarted(Struct, frozen=True):
    task_id: str = ""
    tool_use_id: str | None = None
    description: str = ""
    is_backgrounded: bool = False


class TaskProgress(Struct, frozen=True):
    tool_use_id: str | None = None
    description: str = ""


class TaskUpdated(Struct, frozen=True):
    task_id: str = ""


class TaskNotification(Struct, frozen=True):
    task_id: str = ""
    tool_use_id: str | None = None
    status: str = ""
    summary: str = ""


class BackgroundTask(Struct, frozen=True):
    task_id: str = ""
    description: str = ""


class BackgroundTasks(Struct, frozen=True):
    """All background tasks that run now."""

    tasks: list[BackgroundTask] = field(default_factory=list)


class HookResponse(Struct, frozen=True):
    hook_name: str = ""
    outcome: str = ""
    exit_code: int | None = None
    stderr: str = ""


class Informational(Struct, frozen=True):
    content: str = ""
    level: str = ""


class SessionState(Struct, frozen=True):
    """`running`, `requires_action` or `idle`."""

    state: str = ""


class Silent(Struct, frozen=True):
    """A known line that is not used."""


Kind = (
    Init
    | Status
    | ApiRetry
    | ModelFallback
    | PermissionDenied
    | CompactBoundary
    | TaskStarted
    | TaskProgress
    | TaskUpdated
    | TaskNotification
    | BackgroundTasks
    | HookResponse
    | Informational
    | SessionState
    | Silent
)

KINDS: dict[str, type[Kind]] = {
    "init": Init,
    "status": Status,
    "api_retry": ApiRetry,
    "model_fallback": ModelFallback,
    "permission_denied": PermissionDenied,
    "thinking_tokens": Silent,
    "compact_boundary": CompactBoundary,
    "task_started": TaskStarted,
    "task_progress": TaskProgress,
    "task_updated": TaskUpdated,
    "task_notification": TaskNotification,
    "background_tasks_changed": BackgroundTasks,
    "hook_started": Silent,
    "hook_progress": Silent,
    "hook_response": HookResponse,
    "informational": Informational,
    "session_state_changed": SessionState,
    "session_title_changed": Silent,
    "ui_invalidate": Silent,
}
_decoders: dict[str, msgspec.json.Decoder[Any]] = {
    subtype: msgspec.json.Decoder(kind) for subtype, kind in KINDS.items()
}
_SILENT = Silent()


def decode(line: bytes, subtype: str) -> Kind:
    """Decode a system line. Raises `msgspec.ValidationError` for an unknown subtype or an unexpected shape."""
    decoder = _decoders.get(subtype)
    if decoder is None:
        raise msgspec.ValidationError(f"subtype {subtype!r}")
    return _SILENT if KINDS[subtype] is Silent else decoder.decode(line)
