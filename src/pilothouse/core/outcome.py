"""The outcome of a turn: its failure, by one closed list of kinds for every engine, its cost, and its requests to the model."""

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
    """`text` is for people, and names no time: `retry_at` does. `detail` is for a bug report.

    `fix` is for a person to do before a retry can help: one imperative sentence without its full stop, in which
    `{machine}` stands for the machine's name."""

    kind: FailureKind
    text: str
    retry_at: float | None = None
    detail: str = ""
    fix: str = ""


class Usage(Struct, frozen=True):
    """Cost and tokens as the engine reports them. `None` is "not reported", never zero."""

    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    steps: int | None = None
    estimated: bool | None = None
    """The cost is computed from list prices; the vendor did not report it."""
    context_tokens: int | None = None
    """Tokens of the conversation as the model last counted them, of the `context_window` tokens that it can hold."""
    context_window: int | None = None


class ModelCallRecord(Struct, frozen=True):
    """One request of a turn to its model, for `pilothouse trace --calls`. `shared_prefix` is the part of the request
    before it with which it begins; None for the first."""

    at: float
    seq: int
    model: str = ""
    bytes: int = 0
    hash: str = ""
    shared_prefix: float | None = None
    duration_s: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: float | None = None
    stop: str = ""
    """Why the reply ended, in the words of the engine."""
    problem: str = ""
    """Empty for a whole reply."""
