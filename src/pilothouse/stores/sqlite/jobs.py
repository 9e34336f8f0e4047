"""Values passed between the event loop and the threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from pilothouse.core.store import Tx


class Job(NamedTuple):
    unit: Callable[[Tx], Any]
    future: asyncio.Future[Outcome]
    asked_at: float
    """By the monotonic clock."""


class Outcome(NamedTuple):
    """Result of a job. Errors are values: a future rejects some exceptions and logs those never retrieved."""

    future: asyncio.Future[Outcome]
    value: Any
    error: BaseException | None
    changed: bool = False


def resolve(outcomes: list[Outcome]) -> None:
    """Resolve the futures of callers that were not cancelled. Event loop only."""
    for outcome in outcomes:
        if not outcome.future.done():
            outcome.future.set_result(outcome)
