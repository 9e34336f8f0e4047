"""What engines share about failures: kinds of HTTP statuses, and how much of a program's words is kept."""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.core.outcome import FailureKind

TEXT_CHARS = 600
DETAIL_CHARS = 4000

STATUSES: Mapping[int, FailureKind] = {
    401: "auth",
    402: "quota",
    403: "auth",
    404: "bad_request",
    413: "context_overflow",
    429: "rate_limit",
    503: "overloaded",
    529: "overloaded",
}
"""Of a model's API."""


def kind_of_status(status: int, known: Mapping[int, FailureKind] = STATUSES) -> FailureKind:
    return known.get(status) or ("transport" if status >= 500 else "bad_request")
