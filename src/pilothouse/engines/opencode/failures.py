"""Why a turn of OpenCode failed, in Pilothouse's kinds: one table of its error names, one of HTTP statuses, one of words.

OpenCode itself tries again what may help, without a limit, and tells only the API's words then. So the session gives up
after some attempts, and the kind is read from these words.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.engines.failure_kinds import DETAIL_CHARS, STATUSES, TEXT_CHARS, kind_of_status
from pilothouse.engines.opencode.wire import Status
from pilothouse.engines.opencode.wire_parts import Fault

ABORTED = "MessageAbortedError"

NOT_LOGGED_IN = "OpenCode has no valid login for this model's provider."
LOG_IN = "Run `opencode auth login` on {machine} (if you use an API key: name its variable in `environment` under `[engines.opencode]`)"
STOPPED_INSIDE = "OpenCode stopped in the middle of the turn and did not say why."

NAMES: dict[str, FailureKind] = {
    "ProviderAuthError": "auth",
    "ContextOverflowError": "context_overflow",
    "MessageOutputLengthError": "bad_request",
    "StructuredOutputError": "bad_request",
    "ProviderModelNotFoundError": "bad_request",
    "ConfigInvalidError": "bad_request",
    "NotFoundError": "stale_session",
}
OWN_STATUSES: dict[int, FailureKind] = {**STATUSES, 500: "overloaded"}
WORDS: tuple[tuple[str, FailureKind], ...] = (
    ("insufficient_quota", "quota"),
    ("usage limit", "quota"),
    ("context_length_exceeded", "context_overflow"),
    ("context length", "context_overflow"),
    ("rate limit", "rate_limit"),
    ("rate_limit", "rate_limit"),
    ("too many requests", "rate_limit"),
    ("overloaded", "overloaded"),
    ("cannot connect", "transport"),
    ("connection", "transport"),
    ("socket", "transport"),
    ("timed out", "transport"),
    ("api key", "auth"),
    ("unauthorized", "auth"),
)
"""For errors without a status; the first that fits counts."""


def explain_fault(fault: Fault | None) -> Failure:
    if fault is None:
        return Failure("crash", STOPPED_INSIDE)
    data = fault.data
    kind = _kind(fault)
    told = _plain(data.message).strip()[:TEXT_CHARS]
    detail = f"{fault.name} {data.status_code or ''}\n{data.message}\n{data.response_body}".strip()
    text = NOT_LOGGED_IN if kind == "auth" else told or STOPPED_INSIDE
    return Failure(kind, text, detail=detail[:DETAIL_CHARS], fix=LOG_IN if kind == "auth" else "")


def explain_retry(status: Status, now: float) -> Failure:
    """Explain a request that OpenCode would make again; a later time than now is when it may work."""
    next_at = status.next / 1000
    text = _plain(status.message).strip()[:TEXT_CHARS] or STOPPED_INSIDE
    return Failure(_word_kind(status.message) or "overloaded", text, next_at if next_at > now else None)


def explain_answer(status: int, value: Any, what: str) -> Failure:
    """Explain an answer of the server that is no success; the status 0 is none at all."""
    told = _message_of(value)
    if status == 0:
        return Failure(
            "transport", f"OpenCode's server did not answer when Pilothouse wanted to {what}: {told}"
        )
    if status == 404:
        return Failure("stale_session", told or "OpenCode does not know this session.")
    return Failure("bad_request", f"OpenCode refused to {what} (HTTP {status}): {told[:TEXT_CHARS]}")


def _kind(fault: Fault) -> FailureKind:
    if known := NAMES.get(fault.name):
        return known
    status = fault.data.status_code
    said = f"{fault.data.message} {fault.data.response_body}"
    if status is not None:
        quota = status == 429 and _word_kind(said) == "quota"
        return "quota" if quota else kind_of_status(status, OWN_STATUSES)
    return _word_kind(said) or ("bad_request" if fault.data.message else "crash")


def _word_kind(said: str) -> FailureKind | None:
    lower = said.lower()
    return next((kind for words, kind in WORDS if words in lower), None)


def _plain(message: str) -> str:
    """Return the words of an error that OpenCode passes on as JSON."""
    try:
        return _message_of(msgspec.json.decode(message)) or message
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return message


def _message_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return ""
    inner = next((value[key] for key in ("message", "data", "error") if value.get(key)), "")
    return _message_of(inner)
