"""What travels between the event loop and the threads."""

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
    """An exception travels as a value: a future refuses some, and a cancelled waiter must not make noise."""

    future: asyncio.Future[Outcome]
    value: Any
    error: BaseException | None
    changed: bool = False


def resolve(outcomes: list[Outcome]) -> None:
    """On the event loop. Whoever was cancelled meanwhile is left alone."""
    for outcome in outcomes:
        if not outcome.future.done():
            outcome.future.set_result(outcome)
