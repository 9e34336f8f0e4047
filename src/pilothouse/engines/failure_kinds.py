"""Failures, shared by engines: kinds of HTTP statuses, and the bound on a program's own words."""

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
"""Kinds of the statuses of a model's API."""


def kind_of_status(status: int, known: Mapping[int, FailureKind] = STATUSES) -> FailureKind:
    return known.get(status) or ("transport" if status >= 500 else "bad_request")
