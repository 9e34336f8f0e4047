"""Lines that are worth a word to people and nothing else: one function each, in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pilothouse.core.event import Level, Notice
from pilothouse.engines.claude import system
from pilothouse.engines.claude.limits import describe_limit
from pilothouse.engines.claude.titles import describe_call
from pilothouse.engines.claude.wire import RateLimitEvent

TEXT_CHARS = 500

_LEVELS: dict[str, Level] = {"error": "error", "warning": "warning"}
_CUT_OFF = ("Your response above was cut off mid-stream", "Output token limit hit")


def _retry(heard: system.ApiRetry) -> Notice:
    if heard.error_status is None:
        what = "The API could not be reached"
    else:
        what = f"The API answered {heard.error_status} ({heard.error or 'unknown'})"
    again = f"next attempt in {heard.retry_delay_ms / 1000:.1f} s ({heard.attempt} of {heard.max_retries})"
    return Notice("warning", "api_retry", f"{what}; {again}.")


def _fallback(heard: system.ModelFallback) -> Notice:
    text = heard.content or f"Switched from {heard.original_model} to {heard.fallback_model}"
    return Notice("warning", "model_fallback", text[:TEXT_CHARS])


def _status(heard: system.Status) -> Notice | None:
    if heard.status == "compacting":
        return Notice("info", "compaction", "Compacting the conversation…")
    if heard.compact_error:
        return Notice("info", "compaction", f"Nothing was compacted ({heard.compact_error[:TEXT_CHARS]}).")
    if heard.permission_mode:
        return Notice("info", "permission_mode", f"The permission mode is now {heard.permission_mode}.")
    return None


def _compacted(heard: system.CompactBoundary) -> Notice:
    told = heard.compact_metadata
    known = told.pre_tokens is not None and told.post_tokens is not None
    sizes = f" from {told.pre_tokens:,} to {told.post_tokens:,} tokens" if known else ""
    return Notice("info", "compaction", f"The conversation was compacted{sizes}.")


def _hook(heard: system.HookResponse) -> Notice | None:
    if heard.outcome in ("success", "") and not heard.exit_code:
        return None
    why = heard.stderr.strip()[:TEXT_CHARS]
    return Notice("warning", "hook", f"The hook {heard.hook_name} failed{': ' if why else '.'}{why}")


def _informational(heard: system.Informational) -> Notice | None:
    level = _LEVELS.get(heard.level, "info")
    return Notice(level, "informational", heard.content[:TEXT_CHARS]) if heard.content else None


def _limit(heard: RateLimitEvent) -> Notice | None:
    text = describe_limit(heard.rate_limit_info)
    return Notice("warning", "rate_limit", text) if text else None


def _task_started(heard: system.TaskStarted) -> Notice | None:
    if not heard.is_backgrounded:
        return None
    return Notice("info", "background_task", f"Runs in the background: {heard.description[:TEXT_CHARS]}")


NOTICES: dict[type, Callable[[Any], Notice | None]] = {
    system.ApiRetry: _retry,
    system.ModelFallback: _fallback,
    system.Status: _status,
    system.CompactBoundary: _compacted,
    system.HookResponse: _hook,
    system.Informational: _informational,
    system.TaskStarted: _task_started,
    RateLimitEvent: _limit,
}


def denied(title: str, why: str = "") -> Notice:
    reason = f" — {why[:TEXT_CHARS]}" if why else ""
    return Notice("warning", "permission_denied", f"Permission denied: {title}{reason}")


def denied_call(tool: str, given: dict[str, Any], workspace: str) -> Notice:
    return denied(describe_call("", tool, given, workspace).title)


def task_ended(heard: system.TaskNotification) -> Notice:
    text = heard.summary or f"A background task ended: {heard.status}"
    return Notice("info", "background_task", text[:TEXT_CHARS])


def server_failed(name: str) -> Notice:
    return Notice("warning", "mcp_server", f"The MCP server {name} did not start; its tools are missing.")


def cut_off(text: str) -> Notice | None:
    """The CLI tells its model, in a message of its own making, that its answer was cut and goes on."""
    if text.startswith(_CUT_OFF):
        return Notice("info", "continued", "The answer was cut off and goes on.")
    return None


def unknown(kind: str) -> Notice:
    return Notice(
        "info", "unknown_wire", f"Claude Code sent something that Pilothouse does not know: {kind}."
    )


def noise(quoted: str) -> Notice:
    return Notice("warning", "engine_noise", f"Claude Code printed something that is no event: {quoted}")


def more_noise(count: int) -> Notice:
    return Notice("warning", "engine_noise", f"Claude Code printed {count} more lines that are no events.")
