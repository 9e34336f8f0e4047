"""What the server sends by itself: notifications, and the requests that ask the person something."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pilothouse.channels.rpc.events import AgentEvent, RunUpdate
from pilothouse.channels.rpc.params import Params


class AgentEventParams(Struct, frozen=True):
    run_id: str
    session_id: str
    seq: int
    event: AgentEvent


class RunStatusParams(Struct, frozen=True, omit_defaults=True):
    run_id: str
    session_id: str
    status: Literal["running", "awaiting_ui", "completed", "error", "cancelled"]
    message: str = ""


class RunUpdateParams(Struct, frozen=True):
    """`after_seq` is the number of the last agent event before it; -1 if there was none."""

    run_id: str
    session_id: str
    after_seq: int
    update: RunUpdate


class RunDiagnosticsParams(Struct, frozen=True):
    """Sent with PILOTHOUSE_DIAGNOSTICS=1, when a run ends."""

    run_id: str
    kind: Literal["run_summary"]
    duration_ms: int
    events: int
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class RunContextParams(Struct, frozen=True):
    """The part of the model's window that is still free, in whole percent. Sent when it changes, if the engine tells it."""

    run_id: str
    context_left_percent: int


class SessionNoticeParams(Struct, frozen=True):
    """A message of Pilothouse that belongs to no run: the reply to a command, a limit, a schedule."""

    session_id: str
    kind: str
    text: str


class UiCancelParams(Struct, frozen=True):
    """The request needs no answer any more: it was answered elsewhere, expired, or its run ended."""

    id: str
    reason: str


class UiConfirmParams(Struct, frozen=True, omit_defaults=True):
    title: str
    message: str
    run_id: str = ""
    confirm_label: str = "Allow"
    cancel_label: str = "Deny"
    danger_level: Literal["normal", "danger"] = "normal"
    allow_remember: bool = False
    allow_reason: bool = False


class UiConfirmResult(Params, frozen=True):
    ok: bool
    remember: bool = False
    reason: str | None = None


class UiPromptParams(Struct, frozen=True, omit_defaults=True):
    title: str
    message: str
    run_id: str = ""
    default_value: str = ""
    multiline: bool = False
    secret: bool = False


class UiPromptResult(Params, frozen=True):
    value: str | None = None


class PickItem(Struct, frozen=True, omit_defaults=True):
    id: str
    label: str
    detail: str = ""


class UiPickParams(Struct, frozen=True, omit_defaults=True):
    title: str
    items: tuple[PickItem, ...]
    run_id: str = ""
    multi: bool = False


class UiPickResult(Params, frozen=True):
    ids: tuple[str, ...] = ()
