"""Why a prompt failed, in Pilothouse's kinds. ACP has few error codes of its own, and agents use them freely.

Looked at in this order: the agent's own word for the error, a code of the protocol, an HTTP status as the code, words in the
message.
"""

from __future__ import annotations

import re
from typing import Any

from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.engines.failure_kinds import DETAIL_CHARS, STATUSES, TEXT_CHARS
from pilothouse.engines.jsonrpc import WireError

AUTH_REQUIRED = -32000
NOT_FOUND = -32002

WORDS: dict[str, FailureKind] = {
    "authentication_failed": "auth",
    "oauth_org_not_allowed": "auth",
    "billing_error": "quota",
    "rate_limit": "rate_limit",
    "overloaded": "overloaded",
    "server_error": "overloaded",
    "invalid_request": "bad_request",
    "model_not_found": "bad_request",
    "max_output_tokens": "context_overflow",
}
"""`errorKind` in an error's data."""
CODES: dict[int, FailureKind] = {
    AUTH_REQUIRED: "auth",
    NOT_FOUND: "stale_session",
    **STATUSES,
}
_TEXTS: tuple[tuple[str, FailureKind], ...] = (
    (r"session.{0,80}not found|no such session|unknown session|invalid session", "stale_session"),
    (r"authenticat|unauthorized|not logged in|api key|\b401\b|bad key|log ?in", "auth"),
    (r"quota|billing|credit|insufficient", "quota"),
    (r"rate.?limit|too many requests|\b429\b", "rate_limit"),
    (r"overloaded|high demand|\b503\b|\b529\b", "overloaded"),
    (r"context (window|length)|too many tokens|prompt is too long", "context_overflow"),
    (
        r"econn|enotfound|fetch failed|network|socket hang up|\bterminated\b|premature close|timed? ?out|\b50[0-9]\b"
        r"|unexpected eof|failed to get response",
        "transport",
    ),
)

NO_WORDS = "{program} stopped and did not say why."
NOT_LOGGED_IN = "{program} is not logged in, or its key is not accepted."


def explain_error(error: WireError, program: str, login: str = "") -> Failure:
    """Explain an error reply. `login` is the sentence that says how to log in."""
    message, data = error.message.strip(), error.data
    kind = _kind(error.code, message, data)
    detail = f"error {error.code}: {message}\n{data if data is not None else ''}".strip()[:DETAIL_CHARS]
    if kind == "auth":
        return Failure(kind, NOT_LOGGED_IN.format(program=program), detail=detail, fix=login)
    text = _plain(message, data)[:TEXT_CHARS] or NO_WORDS.format(program=program)
    return Failure(kind, text, detail=detail)


def explain_refusal(error: WireError, program: str, login: str = "") -> Failure:
    """Explain an error reply to the opening of a known session: what is not about the login means that it is not there."""
    failure = explain_error(error, program, login)
    if failure.kind in ("auth", "transport", "overloaded", "rate_limit", "quota"):
        return failure
    text = f"{program} does not know this session any more: {failure.text}"
    return Failure("stale_session", text[:TEXT_CHARS], detail=failure.detail)


def _kind(code: int, message: str, data: Any) -> FailureKind:
    word = data.get("errorKind") if isinstance(data, dict) else None
    if isinstance(word, str) and word in WORDS:
        return WORDS[word]
    if known := CODES.get(code):
        return known
    if 500 <= code < 600:
        return "transport"
    text = f"{message} {_details(data)}"
    found = (kind for pattern, kind in _TEXTS if re.search(pattern, text, re.IGNORECASE))
    return next(found, "bad_request")


def _plain(message: str, data: Any) -> str:
    """Return the message, or the details where the message is only the protocol's own word."""
    details = _details(data)
    return details if message.lower() in ("", "internal error") and details else message


def _details(data: Any) -> str:
    if isinstance(data, str):
        return data
    found = data.get("details") or data.get("message") if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""
