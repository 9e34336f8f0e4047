"""Frames that the server sends by itself: notifications, and the requests that ask the person something."""

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


class TokenFigures(Struct, frozen=True):
    """`input_tokens` are all that were sent; the cached and the newly cached ones are among them."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_cached_tokens: int = 0
    input_cache_creation_tokens: int = 0


class CacheFigures(Struct, frozen=True):
    hit_state: Literal["hit", "miss", "unknown"]
    cache_read_tokens: int
    cache_creation_tokens: int
    cache_read_ratio: float | None = None


class LlmCall(Struct, frozen=True, omit_defaults=True):
    """One request to the model and its reply. `error` says why there was no whole reply."""

    run_id: str
    seq: int
    model: str
    request_ts: str
    response_ts: str
    latency_ms: int
    cache: CacheFigures
    provider: str = ""
    stop_reason: str = ""
    usage: TokenFigures | None = None
    cost_usd: float | None = None
    error: str = ""


class ModelFigures(Struct, frozen=True):
    calls: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_creation_tokens: int
    total_tokens: int
    cost_usd: float | None


class RunFigures(Struct, frozen=True):
    total_calls: int
    total_tokens: int
    total_input_tokens: int
    total_output_tokens: int
    total_cached_input_tokens: int
    total_cache_creation_tokens: int
    by_model: dict[str, ModelFigures]
    """Empty for engines whose program makes the requests itself."""
    duration_ms: int
    events: int
    total_cost_usd: float | None = None


class RunDiagnosticsParams(Struct, frozen=True, omit_defaults=True):
    """Sent with PILOTHOUSE_DIAGNOSTICS=1: a `call` after each reply of the model, the `summary` when the run ends."""

    run_id: str
    kind: Literal["llm_call", "run_summary"]
    call: LlmCall | None = None
    summary: RunFigures | None = None


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


class UiClipboardParams(Struct, frozen=True, omit_defaults=True):
    """At most `max_bytes` of one of the `formats`, the first that the clipboard holds."""

    purpose: Literal["image_attachment", "text_paste"]
    formats: tuple[Literal["image/png", "text/plain"], ...]
    max_bytes: int
    prompt: str = ""
    run_id: str = ""


class ClipboardText(Params, frozen=True, tag_field="type", tag="text"):
    text: str
    bytes: int = 0


class ClipboardImage(Params, frozen=True, tag_field="type", tag="image"):
    data_url: str
    media_type: Literal["image/png"] = "image/png"
    bytes: int = 0


class UiClipboardResult(Params, frozen=True):
    """`cancelled` is the person's no; `error` says why the clipboard could not be read."""

    ok: bool
    cancelled: bool = False
    items: tuple[ClipboardText | ClipboardImage, ...] = ()
    error: str = ""


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
