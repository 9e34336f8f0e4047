"""The outcome of a turn: its failure, by one closed list of kinds for every engine, and its cost."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

FailureKind = Literal[
    "auth",
    "quota",
    "rate_limit",
    "overloaded",
    "transport",
    "context_overflow",
    "stale_session",
    "permission",
    "budget",
    "crash",
    "hang",
    "bad_request",
]


class Failure(Struct, frozen=True):
    """`text` is for people; `detail` is for a bug report."""

    kind: FailureKind
    text: str
    retry_at: float | None = None
    detail: str = ""


class Usage(Struct, frozen=True):
    """Cost and tokens as the engine reports them. `None` is "not reported", never zero."""

    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    steps: int | None = None
