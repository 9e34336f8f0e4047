"""Why a request to a model failed, in Pilothouse's kinds, and whether to make it again. Pure.

The vendors' own names for errors count before the HTTP status: a 429 may mean "wait" or "out of credit", and a 400 may mean
that the conversation is too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from msgspec import Struct

from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.engines.failure_kinds import DETAIL_CHARS, STATUSES, TEXT_CHARS, kind_of_status
from pilothouse.engines.native.messages import ApiError
from pilothouse.engines.native.providers import Target

WORDS: tuple[tuple[str, FailureKind], ...] = (
    ("context_length_exceeded", "context_overflow"),
    ("prompt is too long", "context_overflow"),
    ("maximum context length", "context_overflow"),
    ("exceeds the context window", "context_overflow"),
    ("exceed_context_size", "context_overflow"),
    ("input length and `max_tokens` exceed", "context_overflow"),
    ("image input", "bad_request"),
    ("insufficient_quota", "quota"),
    ("credit balance is too low", "quota"),
    ("insufficient credits", "quota"),
    ("billing", "quota"),
    ("invalid_api_key", "auth"),
    ("authentication_error", "auth"),
    ("permission_error", "auth"),
    ("rate_limit", "rate_limit"),
    ("overloaded", "overloaded"),
    ("server_is_overloaded", "overloaded"),
    ("server_error", "overloaded"),
    ("api_error", "overloaded"),
)
"""The first that stands in the error counts."""
RETRIED: frozenset[FailureKind] = frozenset({"rate_limit", "overloaded", "transport"})
OWN_STATUSES: Mapping[int, FailureKind] = {**STATUSES, 403: "bad_request"}
"""A 403 is about one request, model or place, and says nothing against the key."""
IMAGE_STATUSES = (400, 413, 422)
LONGEST_WAIT_S = 60.0
"""A longer pause ends the turn, which is parked until then."""


class Problem(Struct, frozen=True):
    """A request that failed. `retry_after_s` is the vendor's wish."""

    failure: Failure
    retry_after_s: float | None = None
    refused_key: bool = False
    """The vendor itself said that it does not accept the key."""
    suspects_images: bool = False
    """The request may succeed without its images."""

    @property
    def may_retry(self) -> bool:
        wait_s = self.retry_after_s or 0.0
        return self.failure.kind in RETRIED and wait_s <= LONGEST_WAIT_S


def explain_error(error: ApiError, target: Target, retry_after_s: float | None = None) -> Problem:
    kind = _kind(error)
    told = " ".join(error.message.split())[:TEXT_CHARS]
    status = f" (HTTP {error.status})" if error.status else ""
    text, fix = f"{target.provider.title} answered{status}: {told or error.code or 'nothing more'}", ""
    match kind:
        case "auth":
            text = f"{target.provider.title} did not accept the API key{status}: {told}"
            fix = f"Check {target.provider.key_variable} on {{machine}}"
        case "quota":
            fix = f"Add credit at {target.provider.title}, or choose another model with /model"
        case "bad_request" if error.status == 404:
            text = f"{target.provider.title} has no model {target.model!r}: {told}"
            fix = "Choose another model with /model"
        case "bad_request" if error.status == 403:
            fix = (
                f"Check at {target.provider.title} what the key may use, or choose another model with /model"
            )
        case _:
            pass
    return Problem(
        Failure(kind, text, detail=_detail(error), fix=fix),
        retry_after_s,
        refused_key=error.status == 401 or "invalid_api_key" in error.code,
        suspects_images=_suspects_images(kind, error.status) or "image input" in error.message.lower(),
    )


def explain_transport(target: Target, why: str) -> Problem:
    is_own = target.provider.name == "compatible"
    fix = (
        "Start it, or set base_url under `[engines.native]` on {machine} if it is elsewhere now"
        if is_own
        else ""
    )
    return Problem(Failure("transport", f"{target.provider.title} at {target.base_url} {why}.", fix=fix))


def explain_page(target: Target, status: int, start: str) -> Problem:
    """Explain an answer that is no stream and no JSON, such as the page of a proxy."""
    text = f"{target.base_url} answered HTTP {status} with something that is not a model's answer."
    kind = kind_of_status(status, OWN_STATUSES) if status >= 400 else "bad_request"
    fix = "Check base_url under `[engines.native]` on {machine}" if kind == "bad_request" else ""
    failure = Failure(kind, text, detail=start[:DETAIL_CHARS], fix=fix)
    return Problem(failure, suspects_images=_suspects_images(kind, status))


def read_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds of `retry-after-ms` or `retry-after`, which may also be a date."""
    try:
        if text := headers.get("retry-after-ms"):
            return max(0.0, float(text) / 1000)
        text = headers.get("retry-after", "")
        return max(0.0, float(text)) if text else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(headers["retry-after"]).timestamp() - now)
    except (KeyError, ValueError, OverflowError):
        return None


def _kind(error: ApiError) -> FailureKind:
    said = f"{error.code} {error.message}".lower()
    if error.status == 401:
        return "auth"
    for words, kind in WORDS:
        if words in said and (kind != "overloaded" or error.status == 0 or error.status >= 429):
            return kind
    return kind_of_status(error.status, OWN_STATUSES) if error.status else "overloaded"


def _suspects_images(kind: FailureKind, status: int) -> bool:
    return kind in ("bad_request", "context_overflow") and status in IMAGE_STATUSES


def _detail(error: ApiError) -> str:
    return f"{error.status} {error.code}\n{error.message}".strip()[:DETAIL_CHARS]
