"""Why a turn of Codex failed, in Pilothouse's kinds: one table of its error words, one of HTTP statuses.

A spent limit comes with the time of its reset, so that the turn is parked until then.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.engines.codex.wire import RateLimits, TurnError, Window, WireError
from pilothouse.engines.failure_kinds import DETAIL_CHARS, TEXT_CHARS, kind_of_status

FULL_PERCENT = 100.0
_STATUS = re.compile(r"\b(?:unexpected|last) status:? (\d{3})\b")

NOT_LOGGED_IN = "Codex is not logged in, or its login has expired."
LOG_IN = "Run `codex login` on {machine} (if you use an API key: name its variable in `environment` under `[engines.codex]`)"
IN_USE = (
    "This session is open elsewhere on this machine, and Codex lets one program at a time write to it. "
    "Leave it there and send this again, or start another session here with /new."
)
STOPPED_INSIDE = "Codex stopped in the middle of the turn and did not say why."
LIMIT_REACHED = "The usage limit of this Codex account is reached."

WORDS: dict[str, FailureKind] = {
    "contextWindowExceeded": "context_overflow",
    "sessionBudgetExceeded": "budget",
    "usageLimitExceeded": "quota",
    "rateLimitExceeded": "rate_limit",
    "flexUnavailable": "overloaded",
    "serverOverloaded": "overloaded",
    "internalServerError": "overloaded",
    "policyCapacityUnavailable": "overloaded",
    "unauthorized": "auth",
    "modelNotFound": "bad_request",
    "badRequest": "bad_request",
    "cyberPolicy": "bad_request",
    "misalignmentPolicyViolation": "bad_request",
    "sandboxError": "permission",
    "tooManyDenials": "permission",
    "httpConnectionFailed": "transport",
    "responseStreamConnectionFailed": "transport",
    "responseStreamDisconnected": "transport",
    "responseTooManyFailedAttempts": "transport",
}
_TEXTS: tuple[tuple[str, FailureKind], ...] = (
    ("stream disconnected", "transport"),
    ("Missing environment variable", "auth"),
    ("error sending request", "transport"),
    ("rate limit exceeded", "rate_limit"),
)
"""For errors that Codex calls `other`, or nothing. Most of them are what the API says about a bad request."""


class _Body(Struct, frozen=True):
    error: WireError


def explain_error(error: TurnError | None, limits: RateLimits | None = None) -> Failure:
    """`limits` are the last ones that the account reported."""
    if error is None:
        return Failure("crash", STOPPED_INSIDE)
    name, status = _name(error.codex_error_info)
    if status is None and (found := _STATUS.search(error.message)):
        status = int(found[1])
    kind = _kind(name, status, error.message)
    detail = f"{name or 'no kind'} {status or ''}\n{error.message}\n{error.additional_details or ''}".strip()
    retry_at = reset_of(limits) if kind in ("quota", "rate_limit") else None
    fix = LOG_IN if kind == "auth" else ""
    return Failure(kind, _text(kind, error), retry_at, detail[:DETAIL_CHARS], fix)


def explain_refusal(message: str) -> Failure:
    """Explain an error reply to `thread/start`, `thread/resume` or `turn/start`."""
    kind: FailureKind = "bad_request"
    if "active writer" in message:
        return Failure(kind, IN_USE, detail=message[:DETAIL_CHARS])
    if "no rollout found" in message or "thread not found" in message or "invalid thread id" in message:
        kind = "stale_session"
    return Failure(kind, message[:TEXT_CHARS] or STOPPED_INSIDE)


def reset_of(limits: RateLimits | None) -> float | None:
    """Return when a spent limit is open again: the latest reset of the windows that are used up."""
    if limits is None:
        return None
    windows = [window for window in (limits.primary, limits.secondary) if window is not None]
    spent = [window for window in windows if window.used_percent >= FULL_PERCENT]
    if not spent and limits.rate_limit_reached_type:
        spent = sorted(windows, key=_used)[-1:]
    return max((window.resets_at for window in spent if window.resets_at is not None), default=None)


def _used(window: Window) -> float:
    return window.used_percent


def _name(info: Any) -> tuple[str, int | None]:
    """Return the kind's name and the HTTP status, if any."""
    if isinstance(info, str):
        return info, None
    if not isinstance(info, dict) or not info:
        return "", None
    name, told = next(iter(info.items()))
    status = told.get("httpStatusCode") if isinstance(told, dict) else None
    return str(name), status if isinstance(status, int) else None


def _kind(name: str, status: int | None, message: str) -> FailureKind:
    if status is not None:
        return kind_of_status(status)
    if known := WORDS.get(name):
        return known
    known = next((kind for words, kind in _TEXTS if words in message), None)
    return known or ("bad_request" if message else "crash")


def _text(kind: FailureKind, error: TurnError) -> str:
    if kind == "auth":
        return NOT_LOGGED_IN
    told = _plain(error.message.strip())[:TEXT_CHARS]
    return told or (LIMIT_REACHED if kind == "quota" else STOPPED_INSIDE)


def _plain(message: str) -> str:
    """Return the words in the body of an HTTP error, which Codex passes on as it is."""
    try:
        return msgspec.json.decode(message, type=_Body).error.message or message
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return message
